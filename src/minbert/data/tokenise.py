"""Sentences to WordPiece ids, once, with no special tokens and no padding."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from minbert.common.files import whole
from minbert.data.examples import read_examples
from minbert.wordpiece import load_wordpiece

MAX_TOKENS = 510
"""Ids kept of a sentence: BERT has 512 positions, and [CLS] and [SEP] take two."""

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
