"""A backbone's tokenizer: ids and types are `AutoTokenizer`'s (transformers 4.57), or refused."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import BertWordPieceTokenizer, Encoding, Tokenizer

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.spec.architecture import Architecture

TOKENIZERS = ("tokenizer.json", "vocab.txt")
"""Of these files, the first that a folder has is its tokenizer."""
BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""Files that must not say otherwise."""
_SETTINGS, _, _ADDED = BESIDE

_OF_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_BERT = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
_SPECIAL = {
    **dict.fromkeys(_BERT, _OF_BERT),
    "RobertaTokenizer": ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
}
"""The tokens that a class adds by default, which a text is never split in."""
# transformers 5 writes the last name for the one before it.
_CLASSES = (*_SPECIAL, "PreTrainedTokenizer", "TokenizersBackend")
"""The classes of transformers, without "Fast", whose tokens a `tokenizer.json` gives."""
_OPTIONS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""Settings that BERT's classes read, as attributes of a tokenizer's normalizer."""
Said = Mapping[str, Mapping[str, Any]]
"""Files of `BESIDE`, and what they hold."""
_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
"""What decides where an added token is found in a text; the last only beside a normalizer."""
_MERGE = (
    "Make one tokenizer.json of all its files where transformers is installed: "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
)


class Framing(NamedTuple):
    """Ids of the special tokens before a sequence, between the sentences of a pair, and after."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    two_types: bool = True  # the second sentence, and what is after it, has token type 1


def framing(tokenizer: Tokenizer, path: Path) -> Framing:
    """Return what a tokenizer puts around sentences; `UserError`, naming its file, for nothing."""
    one, two = tokenizer.encode("a"), tokenizer.encode("a", "b")
    single, pair = _runs(one), _runs(two)
    match pair:
        case [(None, before), (0, _), (None, between), (1, _), (None, after)]:
            if single == [*pair[:2], pair[-1]]:
                return Framing(before, between, after, two_types=two.type_ids[-1] == 1)
    raise UserError(
        f"{path}: a sentence becomes {one.tokens}, a pair {two.tokens}; expected special tokens "
        "before, between and after sentences, and the same ones (the file's post_processor)"
    )


def _runs(encoded: Encoding) -> list[tuple[int | None, tuple[int, ...]]]:
    """Return runs of tokens: the number of their sentence, or None for special ones, and ids."""
    pairs = groupby(zip(encoded.sequence_ids, encoded.ids, strict=True), key=itemgetter(0))
    return [(sentence, tuple(token for _, token in run)) for sentence, run in pairs]


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a `tokenizer.json`, without truncation and padding; damaged or missing: `UserError`."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # The library raises the bare class.
        raise UserError(f"{path}: not a tokenizer.json of `tokenizers` ({error})") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def folder_tokenizer(folder: Path, arch: Architecture) -> Tokenizer:
    """Make the tokenizer of a Hugging Face folder, whose encoder is `arch`.

    `UserError` names file and key if one is missing or damaged, if files contradict each other, or
    if ids do not fit the embeddings or `config.json`.
    """
    path = next((path for name in TOKENIZERS if (path := folder / name).is_file()), None)
    if path is None:
        raise UserError(f"{folder}: has neither {' nor '.join(TOKENIZERS)}. {_MERGE}")
    config = read_json(folder / "config.json")
    said = {name: read_json(folder / name) for name in BESIDE if (folder / name).is_file()}
    kind, where = arch.tokenizer, "config.json: model_type"
    for name, values in {"config.json": config, **said}.items():
        if named := values.get("tokenizer_class"):
            kind, where = str(named).removesuffix("Fast"), f"{name}: tokenizer_class"
    if kind not in (_CLASSES if path.suffix == ".json" else _BERT):
        raise UserError(
            f"{folder}/{where} stands for {kind}, whose tokens {path.name} alone does not give; "
            "take the files of the weights' source, or choose a different backbone"
        )
    if path.suffix == ".json":
        tokenizer = load_tokenizer(path)
    else:
        tokenizer = _read_word_pieces(path, said.get(_SETTINGS, {}))
    for file, problem in _contradictions(tokenizer, kind, said):
        raise UserError(f"{folder / (file or path.name)}: {problem}. {_MERGE}")
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


def _read_word_pieces(path: Path, settings: Mapping[str, Any]) -> Tokenizer:
    """Return BERT's tokenizer of a `vocab.txt`; a token's id is its line number from 0."""
    with path.open(encoding="utf-8") as lines:
        vocabulary = {line.rstrip("\n"): number for number, line in enumerate(lines)}
    if missing := [token for token in _OF_BERT if token not in vocabulary]:
        raise UserError(f"{path}: the vocabulary has no {', '.join(missing)}; is it BERT's?")
    given = {name: settings.get(key) for key, name in _OPTIONS.items()}
    options = {name: value for name, value in given.items() if isinstance(value, bool)}
    return Tokenizer.from_str(BertWordPieceTokenizer(vocabulary, **options).to_str())


def _contradictions(tokenizer: Tokenizer, kind: str, said: Said) -> Iterator[tuple[str, str]]:
    """Yield file ("": the tokenizer's) and problem where the files or the class say otherwise."""
    settings = said.get(_SETTINGS, {})
    read = {key: (tokenizer.normalizer, name) for key, name in _OPTIONS.items() if kind in _BERT}
    read["add_prefix_space"] = (tokenizer.pre_tokenizer, "add_prefix_space")
    for key, (part, name) in read.items():
        given = settings.get(key)
        if key in settings and (state := getattr(part, name, given)) != given:
            yield _SETTINGS, f"{key} is {given!r:.80}, but {state} in the tokenizer"
    added = {token.content: token for token in tokenizer.get_added_tokens_decoder().values()}
    if missing := [token for token in _SPECIAL.get(kind, ()) if token not in added]:
        yield "", f"added_tokens has no {', '.join(missing)}, as {kind} has"
    flags = _FLAGS if tokenizer.normalizer is not None else _FLAGS[:-1]
    for file, key, token in _tokens(said):
        has = added.get(token["content"])
        given = token if key == "added_tokens_decoder" else {}
        if has is None or any(given.get(n) not in (None, getattr(has, n)) for n in flags):
            yield file, f"{key} has '{token['content']}', which the tokenizer has not, or otherwise"


def _tokens(said: Said) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield file, key, and what is said of a token: its `content` at least."""
    for file, values in said.items():
        for key, value in values.items():
            found = key if file == _ADDED else value
            named = key.endswith(("_token", "_special_tokens", "added_tokens_decoder"))
            if isinstance(found, dict) and "content" not in found:
                found = list(found.values())
            for each in found if isinstance(found, list) else [found]:
                if each and (named or file == _ADDED):
                    yield file, key, each if isinstance(each, dict) else {"content": each}
