"""The token table: the backbone's ids of all sentences, without special tokens or padding."""

import os
from itertools import accumulate, groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from minbert.base.files import whole
from minbert.data.examples import read_examples
from minbert.data.tokenizer import load_tokenizer
from minbert.store.job import Job

MAX_TOKENS = 510
"""The most ids of a sentence: `max_length` is at most 512, and special tokens take two or more."""

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
_BATCH = 1024
# Encodings hold offsets and masks too, 100 bytes for each character.
_CHARACTERS = 2_000_000


def make(job: Job) -> None:
    """Tokenise the sentences of the job's data set."""
    tokenise(job.need("examples"), job.need("tokenizer"), job.out / "tokens.parquet")


def tokenise(examples: Path, tokenizer_json: Path, out: Path) -> None:
    """Write the token table of the example table `examples` to the parquet file `out`.

    Rows keep their order; `tokens1` and `tokens2` are ids without special tokens, at most 510
    each; `tokens2` is null for single sentences. A literal `[SEP]` in a sentence becomes the
    special token, as in `transformers`. Raises `UserError` for a missing or damaged input.
    """
    table = read_examples(examples)
    tokenizer = load_tokenizer(tokenizer_json)
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
    # If this is unset, `tokenizers` prints a warning at a later fork.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    given = [sentence for sentence in sentences if sentence is not None]
    places = zip(accumulate(map(len, given)), given, strict=True)
    ids = (
        encoding.ids[:MAX_TOKENS]
        for _, part in groupby(places, lambda place: place[0] // _CHARACTERS)
        for encoding in tokenizer.encode_batch_fast([s for _, s in part], add_special_tokens=False)
    )
    return [None if s is None else next(ids) for s in sentences]


def _ids(tokenizer: Tokenizer, sentences: pa.ChunkedArray) -> pa.ChunkedArray:
    batches = [
        pa.array(encode(tokenizer, sentences.slice(start, _BATCH).to_pylist()), _IDS)
        for start in range(0, len(sentences), _BATCH)
    ]
    return pa.chunked_array(batches, _IDS)
