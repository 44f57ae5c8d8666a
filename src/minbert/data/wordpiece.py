"""BERT's WordPiece tokenizer, built from a vocabulary or from its `vocab.txt`."""

import io
from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from minbert.base.errors import UserError
from minbert.base.files import content_of, read_json

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


def read_vocab_txt(path: Path) -> Tokenizer:
    """Return the tokenizer of a BERT `vocab.txt`; the id is the line number from 0.

    `tokenizer_config.json` beside it decides whether text is lower-cased. Raises `UserError` for a
    damaged file, or a vocabulary without BERT's special tokens.
    """
    vocabulary = _read_vocabulary(path)
    check_special(vocabulary, path)
    return bert_tokenizer(vocabulary, _normalizer(path.with_name("tokenizer_config.json")))


def check_special(words: Mapping[str, int], path: Path) -> None:
    """Raise `UserError` for a WordPiece vocabulary without one of BERT's special tokens."""
    if missing := [token for token in SPECIAL_TOKENS if token not in words]:
        raise UserError(f"{path}: the vocabulary has no {', '.join(missing)}; is it BERT's?")


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
