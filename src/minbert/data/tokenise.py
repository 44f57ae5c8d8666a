"""Sentences to WordPiece ids, once, with no special tokens and no padding."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from minbert.common.errors import UserError
from minbert.common.files import whole
from minbert.data.examples import read_examples

MAX_TOKENS = 510
"""Ids kept of a sentence: BERT has 512 positions, and [CLS] and [SEP] take two."""

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_IDS = pa.list_(pa.int32())
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("label", pa.float32()),
        pa.field("tokens1", _IDS, nullable=False),
        pa.field("tokens2", _IDS),
    ]
)
# Encodings keep offsets and masks too, and Python's ints are large: a whole data set of reviews
# at once would be gigabytes.
_BATCH = 1024


def tokenise(examples: Path, tokenizer_json: Path, out: Path) -> None:
    """Write the token table of the example table `examples` to the parquet file `out`.

    Rows keep their order; `tokens1` and `tokens2` are ids without special tokens, each cut at
    510; `tokens2` is null where there is one sentence. The same input gives the same bytes.
    A literal `[SEP]` in a sentence becomes the special token, as in `transformers`. Raises
    `UserError` for a table or tokenizer that is missing or damaged.
    """
    table = read_examples(examples)
    tokenizer = load_wordpiece(tokenizer_json)
    tokens = pa.table(
        {
            "id": table["id"],
            "split": table["split"],
            "label": table["label"].cast(pa.float32()),
            "tokens1": _ids(tokenizer, table["sentence1"]),
            "tokens2": _ids(tokenizer, table["sentence2"]),
        },
        schema=SCHEMA,
    )
    with whole(out) as temporary:
        pq.write_table(tokens, temporary, compression="zstd")


def encode(tokenizer: Tokenizer, sentences: list[str | None]) -> list[list[int] | None]:
    """Return each sentence's ids without special tokens, at most 510; None stays None."""
    # Unless it is said, a later fork (a worker, a subprocess) prints a warning.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    given = [sentence for sentence in sentences if sentence is not None]
    encoded = iter(tokenizer.encode_batch_fast(given, add_special_tokens=False))
    return [None if s is None else next(encoded).ids[:MAX_TOKENS] for s in sentences]


def _ids(tokenizer: Tokenizer, sentences: pa.ChunkedArray) -> pa.ChunkedArray:
    batches = [
        pa.array(encode(tokenizer, sentences.slice(start, _BATCH).to_pylist()), _IDS)
        for start in range(0, len(sentences), _BATCH)
    ]
    return pa.chunked_array(batches, _IDS)


def load_wordpiece(path: Path, lowercase: bool = True) -> Tokenizer:
    """Return the WordPiece tokenizer of a `tokenizer.json` or a BERT `vocab.txt`.

    `lowercase` (bert-base-uncased: True) counts for a `vocab.txt` alone, which says nothing of
    it. Truncation and padding that a `tokenizer.json` may ask for are switched off: packed
    batches have no padding. Raises `UserError` for a missing or damaged file, another kind of
    tokenizer, or a vocabulary without BERT's special tokens.
    """
    if not path.is_file():
        raise UserError(f"no such tokenizer: {path}; expected a tokenizer.json or a vocab.txt")
    if path.suffix == ".txt":
        tokenizer = _bert(_vocabulary(path), lowercase)
    else:
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the Rust side raises plain Exception
            raise UserError(f"{path}: not a tokenizer.json of `tokenizers` ({error})") from error
        if not isinstance(tokenizer.model, models.WordPiece):
            raise UserError(
                f"{path}: a {type(tokenizer.model).__name__} tokenizer; expected WordPiece (BERT)"
            )
    missing = [token for token in SPECIAL_TOKENS if tokenizer.token_to_id(token) is None]
    if missing:
        raise UserError(f"{path}: the vocabulary has no {', '.join(missing)}; is it BERT's?")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, out: Path) -> None:
    """Write `tokenizer` as a `tokenizer.json`, whole or not at all."""
    with whole(out) as temporary:
        tokenizer.save(str(temporary))


def _vocabulary(path: Path) -> dict[str, int]:
    """Return {token: id}, the id being the token's line from 0, as BERT's vocab.txt has it."""
    try:
        with path.open(encoding="utf-8") as handle:
            tokens = [line.rstrip("\n") for line in handle]
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error})") from error
    vocabulary: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if token in vocabulary:
            raise UserError(
                f"{path}, line {number + 1}: token '{token}' stood already on line "
                f"{vocabulary[token] + 1}"
            )
        vocabulary[token] = number
    return vocabulary


def _bert(vocabulary: dict[str, int], lowercase: bool) -> Tokenizer:
    """Build BERT's tokenizer (Devlin et al., 2019): normalise, split, longest match first."""
    tokenizer = Tokenizer(
        models.WordPiece(
            vocabulary,
            unk_token="[UNK]",
            continuing_subword_prefix="##",
            max_input_chars_per_word=100,
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    known = [token for token in SPECIAL_TOKENS if token in vocabulary]
    tokenizer.add_special_tokens(known)
    if {"[CLS]", "[SEP]"} <= set(known):
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
        )
    return tokenizer
