"""A backbone's tokenizer: the `tokenizer.json` of its folder, and how it frames sentences.

Ids and token types are those of `AutoTokenizer` (transformers 4.57) of the folder.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from minbert.base.errors import UserError
from minbert.base.files import read_json, whole
from minbert.spec.architecture import Architecture

TOKENIZER = "tokenizer.json"
BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""Files that must not say otherwise."""
_NAMING = ("_token", "_special_tokens", "added_tokens_decoder")
"""How their keys end that name tokens; of the last file all keys are tokens."""
_MERGE = (
    "Make one tokenizer.json of all its files where transformers is installed: "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
)


class Framing(NamedTuple):
    """Ids of the special tokens before a sequence, between the sentences of a pair, and after.

    With `two_types` the second sentence, and what is after it, has token type 1.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    two_types: bool = True


def framing(tokenizer: Tokenizer, path: Path) -> Framing:
    """Return what a tokenizer puts around sentences; `UserError`, naming its file, for nothing."""
    encoded = tokenizer.encode("a", "b")
    pairs = zip(encoded.sequence_ids, encoded.ids, strict=True)
    runs = [(of, tuple(token for _, token in run)) for of, run in groupby(pairs, itemgetter(0))]
    if [sentence for sentence, _ in runs] != [None, 0, None, 1, None]:
        raise UserError(
            f"{path}: a pair becomes {encoded.tokens}; expected special tokens before, between and "
            "after the sentences (the file's post_processor)"
        )
    (_, before), _, (_, between), _, (_, after) = runs
    return Framing(before, between, after, two_types=encoded.type_ids[-1] == 1)


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a `tokenizer.json`, without truncation and padding; damaged or missing: `UserError`."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # The library raises the bare class.
        raise UserError(f"{path}: not a tokenizer.json of `tokenizers` ({error})") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, out: Path) -> None:
    """Write `tokenizer` as a `tokenizer.json`, whole or not at all."""
    with whole(out) as temporary:
        tokenizer.save(str(temporary))


def folder_tokenizer(folder: Path, arch: Architecture) -> Tokenizer:
    """Read the tokenizer of a Hugging Face folder, whose encoder is `arch`.

    Raises `UserError`, naming the file, if it is missing or damaged, if a file beside it has other
    tokens or case, or if ids do not fit the embeddings or the special tokens in `config.json`.
    """
    path = folder / TOKENIZER
    if not path.is_file():
        raise UserError(f"{folder}: has no {TOKENIZER}. {_MERGE}")
    tokenizer, config = load_tokenizer(path), read_json(folder / "config.json")
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    for beside in (folder / name for name in BESIDE if (folder / name).is_file()):
        said = read_json(beside)
        lower = getattr(tokenizer.normalizer, "lowercase", None)
        if lower not in (None, said.get("do_lower_case", lower)):
            raise UserError(f"{beside}: do_lower_case is not {lower} as in {TOKENIZER}. {_MERGE}")
        given = [value for key, value in said.items() if key.endswith(_NAMING)]
        for token in _texts(list(said) if beside.name == BESIDE[-1] else given):
            if token not in added:
                raise UserError(f"{beside}: '{token}' is no token of {TOKENIZER}. {_MERGE}")
    around, largest = framing(tokenizer, path), max(tokenizer.get_vocab().values())
    has = {name: (around.before + around.after)[at] for name, at in arch.token_ids.items()}
    wrong = [name for name, token in has.items() if config.get(name) not in (None, token)]
    if wrong or largest >= arch.vocab_size:
        name = (*wrong, "vocab_size")[0]
        raise UserError(
            f"{path}: has token id {has.get(name, largest)}, but {folder / 'config.json'}: {name} "
            f"is {config[name]!r:.80}; the tokenizer belongs to other weights"
        )
    return tokenizer


def _texts(value: Any) -> Iterator[str]:
    """Yield the tokens in a value: a text, an object with its `content`, or several of these."""
    match value:
        case str():
            yield value
        case {"content": content}:
            yield content
        case dict() | list():
            for each in value.values() if isinstance(value, dict) else value:
                yield from _texts(each)
