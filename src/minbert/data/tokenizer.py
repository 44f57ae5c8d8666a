"""A backbone's tokenizer: made from all that a Hugging Face folder says, and how it frames rows.

Ids and token types are those of `AutoTokenizer` (transformers 4.57), or the folder is refused.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import (
    AddedToken,
    Encoding,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from minbert.base.errors import UserError
from minbert.base.files import read_json, whole
from minbert.data import wordpiece
from minbert.spec.architecture import Architecture

TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json")
"""Of these files, the first that a folder has is its tokenizer."""
BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""Files that must not say otherwise."""
_SETTINGS, _, _ADDED = BESIDE

_BERT = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
_ROBERTA = "RobertaTokenizer"
_CLASSES = {
    "vocab.txt": _BERT,
    "vocab.json": (_ROBERTA,),
    # transformers 5 writes the last name for the one before it.
    "tokenizer.json": (*_BERT, _ROBERTA, "PreTrainedTokenizer", "TokenizersBackend"),
}
"""The classes of transformers, without "Fast", whose tokens such a file alone gives."""
_SPECIAL = {
    **dict.fromkeys(_BERT, wordpiece.SPECIAL_TOKENS),
    _ROBERTA: ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
}
"""The tokens that a class adds by default, which a text is never split in."""
_OPTIONS = {
    "do_lower_case": ("normalizer", "lowercase"),
    "strip_accents": ("normalizer", "strip_accents"),
    "tokenize_chinese_chars": ("normalizer", "handle_chinese_chars"),
    "add_prefix_space": ("pre_tokenizer", "add_prefix_space"),
}
"""Settings: a part of a tokenizer, and its attribute. A normalizer's are read by BERT's classes."""
_DEFAULTS = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
"""Settings of BERT's classes."""
_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
"""What decides where an added token is found in a text; the last only beside a normalizer."""
_MERGE = (
    "Make them one where transformers is installed: "
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
    one, two = _runs(tokenizer.encode("a")), _runs(encoded)
    sentences = [[sentence for sentence, _ in runs] for runs in (one, two)]
    if sentences != [[None, 0, None], [None, 0, None, 1, None]] or one[::2] != two[::4]:
        raise UserError(
            f"{path}: the special tokens around a sentence are {_special(one)}, around a pair "
            f"{_special(two)}; expected some in each place, and the same (the file's "
            "post_processor). Take the tokenizer of the weights' source"
        )
    before, between, after = _special(two)
    return Framing(before, between, after, two_types=encoded.type_ids[-1] == 1)


Run = tuple[int | None, tuple[int, ...]]
"""The number of a sentence, or None for special tokens, and the ids of a run of its tokens."""


def _runs(encoded: Encoding) -> list[Run]:
    pairs = groupby(zip(encoded.sequence_ids, encoded.ids, strict=True), key=itemgetter(0))
    return [(sentence, tuple(token for _, token in run)) for sentence, run in pairs]


def _special(runs: list[Run]) -> list[tuple[int, ...]]:
    return [ids for sentence, ids in runs if sentence is None]


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a `tokenizer.json`, without truncation and padding; damaged or missing: `UserError`."""
    if not path.is_file():
        raise UserError(f"no such tokenizer: {path}")
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
    """Make the tokenizer of a Hugging Face folder, whose encoder is `arch`.

    Raises `UserError`, naming file and key, if a file is missing or damaged, if files contradict
    each other, or if ids do not fit the embeddings or the special tokens in `config.json`.
    """
    path = next((path for name in TOKENIZERS if (path := folder / name).is_file()), None)
    if path is None:
        raise UserError(
            f"{folder}: has neither {' nor '.join(TOKENIZERS)}; copy one of them from the source "
            "of the weights"
        )
    config = read_json(folder / "config.json")
    said = {name: read_json(folder / name) for name in BESIDE if (folder / name).is_file()}
    kind = _class_of(path, arch, {"config.json": config, **said})
    if path.suffix == ".txt":
        tokenizer = _read_word_pieces(path, said.get(_SETTINGS, {}))
    else:
        tokenizer = (_read_byte_pairs if path.name == "vocab.json" else load_tokenizer)(path)
    for name, problem in _contradictions(tokenizer, kind, said):
        raise UserError(f"{folder / (name or path.name)}: {problem}. {_MERGE}")
    if (largest := max(tokenizer.get_vocab().values())) >= arch.vocab_size:
        raise UserError(
            f"{path}: has token id {largest}, but config.json's vocab_size is {arch.vocab_size}; "
            "the tokenizer belongs to other weights"
        )
    around = framing(tokenizer, path)
    for name, place in arch.token_ids.items():
        found = around.before[0] if place == 0 else around.after[-1]
        if config.get(name) not in (None, found):
            raise UserError(
                f"{path}: a sequence {'ends' if place else 'begins'} with token {found}, but "
                f"{folder / 'config.json'}: {name} is {config[name]!r:.80}; the tokenizer belongs "
                "to other weights"
            )
    return tokenizer


def _class_of(path: Path, arch: Architecture, said: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the class of transformers that makes the tokens, without "Fast"."""
    kind, where = arch.tokenizer, f"config.json: model_type is '{arch.family}'"
    for name, values in said.items():
        if named := values.get("tokenizer_class"):
            kind, where = str(named).removesuffix("Fast"), f"{name}: tokenizer_class is {named!r}"
    if kind not in _CLASSES[path.name]:
        raise UserError(
            f"{path.parent}/{where}, whose tokens {path.name} alone does not give (it gives those "
            f"of {', '.join(_CLASSES[path.name])}). Put the files of the weights' source there, or "
            "choose another backbone"
        )
    return kind


def _read_word_pieces(path: Path, settings: Mapping[str, Any]) -> Tokenizer:
    """Return BERT's tokenizer of a `vocab.txt`; a token's id is its line number from 0."""
    try:
        with path.open(encoding="utf-8") as lines:
            vocabulary = {line.rstrip("\n"): number for number, line in enumerate(lines)}
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error})") from error
    _check_special(vocabulary, "BertTokenizer", path)
    options = {
        _OPTIONS[key][1]: found if isinstance(found := settings.get(key), bool) else default
        for key, default in _DEFAULTS.items()
    }
    return wordpiece.bert_tokenizer(vocabulary, normalizers.BertNormalizer(**options))


def _read_byte_pairs(path: Path) -> Tokenizer:
    """Return RoBERTa's byte-level pairs (Liu et al., 2019) of `vocab.json` and `merges.txt`.

    A sentence is `<s> a </s>`, a pair `<s> a </s></s> b </s>`.
    """
    vocabulary, merges = read_json(path), path.with_name("merges.txt")
    _check_special(vocabulary, _ROBERTA, path)
    if not merges.is_file():
        raise UserError(f"{merges}: no such file, which {path.name} needs; copy it, too")
    try:
        model = models.BPE.from_file(str(path), str(merges))
    except Exception as error:  # The library raises the bare class.
        raise UserError(f"{path}, {merges.name}: no byte-level pairs ({error})") from error
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    # The mask takes the space before it along, as in the authors' code.
    added = [AddedToken(token, lstrip=token == "<mask>") for token in _SPECIAL[_ROBERTA]]
    tokenizer.add_special_tokens(added)
    first, last = ((token, vocabulary[token]) for token in ("<s>", "</s>"))
    tokenizer.post_processor = processors.RobertaProcessing(last, first, add_prefix_space=False)
    return tokenizer


def _check_special(vocabulary: Mapping[str, int], kind: str, path: Path) -> None:
    if missing := [token for token in _SPECIAL[kind] if token not in vocabulary]:
        whose = kind.removesuffix("Tokenizer")
        raise UserError(f"{path}: the vocabulary has no {', '.join(missing)}; is it {whose}'s?")


def _contradictions(
    tokenizer: Tokenizer, kind: str, said: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield what the files beside a tokenizer, or its class, say otherwise: file, and the problem.

    The file is "" if it is the tokenizer's own.
    """
    settings = said.get(_SETTINGS, {})
    for key, (part, name) in _OPTIONS.items():
        if key in settings and (kind in _BERT or part != "normalizer"):
            state = getattr(getattr(tokenizer, part), name, settings[key])
            if state != settings[key]:
                yield _SETTINGS, f"{key} is {settings[key]!r:.80}, but {state} in the tokenizer"
    added = {token.content: token for token in tokenizer.get_added_tokens_decoder().values()}
    if missing := [token for token in _SPECIAL.get(kind, ()) if token not in added]:
        yield "", f"added_tokens has no {', '.join(missing)}, as {kind} has"
    flags = _FLAGS if tokenizer.normalizer is not None else _FLAGS[:-1]
    for name, values in said.items():
        for key, value in values.items():
            for token in _tokens_in(name, key, value):
                if (has := added.get(token.content)) is None:
                    yield name, f"{key} is '{token.content}', which the tokenizer does not have"
                elif key == "added_tokens_decoder":
                    for flag in flags:
                        if getattr(has, flag) != getattr(token, flag):
                            found = f"'{token.content}' with {flag} {getattr(token, flag)}"
                            yield name, f"{key} has {found}, unlike the tokenizer"


def _tokens_in(file: str, key: str, value: Any) -> list[AddedToken]:
    """Return the tokens in a setting: texts, or objects with a `content`, or several of them."""
    if file == _ADDED:
        return [AddedToken(key)]
    if not key.endswith(("_token", "_special_tokens", "added_tokens_decoder")):
        return []
    if isinstance(value, dict) and "content" not in value:
        value = list(value.values())
    found = []
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str):
            found.append(AddedToken(each))
        elif isinstance(each, dict):
            flags = {name: each[name] for name in (*_FLAGS, "special") if name in each}
            found.append(AddedToken(each["content"], **flags))
    return found
