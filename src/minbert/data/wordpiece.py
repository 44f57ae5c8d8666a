"""BERT's WordPiece tokenizer: built from a vocabulary, or read from a Hugging Face folder."""

import io
from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from minbert.base.errors import UserError
from minbert.base.files import content_of, read_json, whole

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"
"""The prefix of a piece that continues a word."""


def bert_tokenizer(
    vocabulary: Mapping[str, int], normalizer: normalizers.Normalizer | None = None
) -> Tokenizer:
    """Return BERT's tokenizer (Devlin et al., 2019): normalise, split, longest match first.

    `vocabulary` maps tokens to ids and contains `SPECIAL_TOKENS`. `normalizer` is that of
    bert-base-uncased by default. There is no truncation or padding.
    """
    tokenizer = Tokenizer(
        models.WordPiece(
            dict(vocabulary),
            unk_token="[UNK]",
            continuing_subword_prefix=CONTINUES,
            max_input_chars_per_word=100,
        )
    )
    tokenizer.normalizer = normalizer or normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def load_wordpiece(path: Path, normalizer: normalizers.Normalizer | None = None) -> Tokenizer:
    """Return the WordPiece tokenizer of a `tokenizer.json` or a BERT `vocab.txt`.

    `normalizer` is for a `vocab.txt`, which has none. Truncation and padding are switched off.
    Raises `UserError` for a missing or damaged file, another kind of tokenizer, or a vocabulary
    without BERT's special tokens.
    """
    if not path.is_file():
        raise UserError(f"no such tokenizer: {path}; expected a tokenizer.json or a vocab.txt")
    if path.suffix == ".txt":
        vocabulary = _read_vocabulary(path)
        _check_special(vocabulary, path)
        return bert_tokenizer(vocabulary, normalizer)
    try:
        tokenizer = Tokenizer.from_buffer(content_of(path))
    except UserError:
        raise
    except BaseException as error:  # the library raises the bare class, or panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UserError(f"{path}: not a tokenizer.json of `tokenizers` ({error})") from error
    if not isinstance(tokenizer.model, models.WordPiece):
        raise UserError(
            f"{path}: a {type(tokenizer.model).__name__} tokenizer; expected WordPiece (BERT)"
        )
    _check_special(tokenizer.get_vocab(), path)
    words: dict[int, str] = {}
    for word, number in tokenizer.get_vocab().items():
        if (other := words.setdefault(number, word)) != word:
            raise UserError(f"{path}: tokens '{other}' and '{word}' have one id, {number}")
    if (unknown := tokenizer.model.unk_token) not in tokenizer.get_vocab(with_added_tokens=False):
        raise UserError(f"{path}: the vocabulary has no '{unknown}', its token for unknown words")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_tokenizer(folder: Path, vocab_size: int) -> Tokenizer:
    """Return the tokenizer of a Hugging Face folder: `tokenizer.json`, or else `vocab.txt`.

    With a `vocab.txt`, `tokenizer_config.json` decides whether text is lower-cased. Raises
    `UserError` like `load_wordpiece`, or if an id exceeds the `vocab_size` rows of the embeddings.
    """
    path = folder / "tokenizer.json"
    if path.is_file():
        tokenizer = load_wordpiece(path)
    elif (path := folder / "vocab.txt").is_file():
        tokenizer = load_wordpiece(path, _normalizer(folder / "tokenizer_config.json"))
    else:
        raise UserError(
            f"{folder}: has neither tokenizer.json nor vocab.txt; copy one of them from the "
            "source of the weights"
        )
    if (largest := max(tokenizer.get_vocab().values())) >= vocab_size:
        raise UserError(
            f"{path}: has token id {largest}, but config.json's vocab_size is {vocab_size}; "
            "the tokenizer belongs to other weights"
        )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, out: Path) -> None:
    """Write `tokenizer` as a `tokenizer.json`, whole or not at all."""
    with whole(out) as temporary:
        tokenizer.save(str(temporary))


def _normalizer(settings: Path) -> normalizers.Normalizer:
    defaults = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
    options = defaults | (read_json(settings) if settings.is_file() else {})
    for name, default in defaults.items():
        if not isinstance(options[name], bool | type(default)):
            found = repr(options[name])[:80]
            raise UserError(f"{settings}: {name} is {found}, expected true or false")
    return normalizers.BertNormalizer(
        lowercase=options["do_lower_case"],
        strip_accents=options["strip_accents"],
        handle_chinese_chars=options["tokenize_chinese_chars"],
    )


def _check_special(words: Mapping[str, int], path: Path) -> None:
    if missing := [token for token in SPECIAL_TOKENS if token not in words]:
        raise UserError(f"{path}: the vocabulary has no {', '.join(missing)}; is it BERT's?")


def _read_vocabulary(path: Path) -> dict[str, int]:
    """Return {token: id} of a BERT vocab.txt; the id is the line number from 0."""
    try:
        lines = io.StringIO(content_of(path).decode("utf-8"), newline=None)
        tokens = [line.rstrip("\n") for line in lines]
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error})") from error
    vocabulary: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if token in vocabulary:
            raise UserError(
                f"{path}, line {number + 1}: token '{token}' is already on line "
                f"{vocabulary[token] + 1}"
            )
        vocabulary[token] = number
    return vocabulary
