"""The WordPiece tokenizer of a Hugging Face folder, from `tokenizer.json` or `vocab.txt`."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing

from minbert.common.errors import UserError

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def read_tokenizer(folder: Path, vocab_size: int) -> Tokenizer:
    """Return the tokenizer of `folder`, without truncation or padding.

    Raises `UserError` naming the file if there is none, it is not WordPiece, it lacks one of
    `SPECIAL`, or it has more words than the `vocab_size` rows of the embeddings.
    """
    path = folder / "tokenizer.json"
    if path.is_file():
        tokenizer = _parse(path)
    elif (folder / "vocab.txt").is_file():
        path = folder / "vocab.txt"
        tokenizer = _from_vocabulary(path, folder / "tokenizer_config.json")
    else:
        raise UserError(
            f"{folder}: has neither tokenizer.json nor vocab.txt; copy one of them from where the "
            "weights come from"
        )
    _check_words(tokenizer.get_vocab(), vocab_size, path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _parse(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises the bare class
        raise UserError(f"{path}: not a tokenizer file: {error}") from error
    if not isinstance(tokenizer.model, WordPiece):
        raise UserError(
            f"{path}: the tokenizer is {type(tokenizer.model).__name__}, expected WordPiece, "
            "which BERT has"
        )
    return tokenizer


def _check_words(words: dict[str, int], vocab_size: int, path: Path) -> None:
    missing = [word for word in SPECIAL if word not in words]
    if missing:
        raise UserError(f"{path}: the vocabulary has no {', '.join(missing)}; is it BERT's?")
    if max(words.values()) >= vocab_size:
        raise UserError(
            f"{path}: has token id {max(words.values())}, but config.json's vocab_size is "
            f"{vocab_size}; the tokenizer belongs to other weights"
        )


def _from_vocabulary(path: Path, settings: Path) -> Tokenizer:
    """Build BERT's tokenizer from a word a line; lower case unless the settings say otherwise."""
    lines = path.read_text(encoding="utf-8").split("\n")
    words = {word.rstrip("\r"): number for number, word in enumerate(lines) if word.strip()}
    options = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    _check_words(words, len(lines), path)
    tokenizer = Tokenizer(WordPiece(words, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options.get("tokenize_chinese_chars", True),
        strip_accents=options.get("strip_accents"),
        lowercase=options.get("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", words["[SEP]"]), ("[CLS]", words["[CLS]"]))
    tokenizer.decoder = WordPieceDecoder(prefix="##")
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer
