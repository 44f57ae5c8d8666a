"""The token table: the backbone's ids of all sentences, without special tokens or padding."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from minbert.data.parquet import read_file, write_file
from minbert.data.tokenizer import load_tokenizer
from minbert.store.job import Job

MAX_TOKENS = 510
"""The most ids of a sentence: `max_length` is at most 512, and special tokens take two or more."""
_IDS = pa.list_(pa.int32())
_GIVEN = [pa.field(name, pa.string(), nullable=False) for name in ("id", "split")]
_FIRST = pa.field("tokens1", _IDS, nullable=False)
SCHEMA = pa.schema([*_GIVEN, ("label", pa.float32()), _FIRST, ("tokens2", _IDS)])
BATCH = 1000
"""Sentences at once: encodings take 100 bytes for each character."""


def make(job: Job) -> None:
    """Tokenise the sentences of the job's data set."""
    tokenise(job.need("examples"), job.need("tokenizer"), job.out / "tokens.parquet")


def tokenise(examples: Path, tokenizer_json: Path, out: Path) -> None:
    """Write the token table of the example table `examples` to the parquet file `out`.

    Rows keep their order; `tokens1` and `tokens2` are ids without special tokens, at most 510
    each; `tokens2` is null for single sentences. A literal `[SEP]` in a sentence becomes the
    special token, as in `transformers`. Raises `UserError` for a missing or damaged input.
    """
    table, tokenizer = read_file(examples), load_tokenizer(tokenizer_json)
    columns = {"id": table["id"], "split": table["split"], "label": table["label"].cast("float")}
    for number in "12":
        ids = encode(tokenizer, table[f"sentence{number}"].to_pylist())
        columns[f"tokens{number}"] = pa.array(ids, _IDS)
    write_file(out, pa.table(columns, schema=SCHEMA))


def encode(tokenizer: Tokenizer, sentences: Sequence[str | None]) -> list[NDArray[np.int32] | None]:
    """Return each sentence's ids without special tokens, at most 510; None stays None."""
    # If this is unset, `tokenizers` prints a warning at a later fork.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    given = [sentence for sentence in sentences if sentence is not None]
    batches = (given[start : start + BATCH] for start in range(0, len(given), BATCH))
    found = (tokenizer.encode_batch_fast(batch, add_special_tokens=False) for batch in batches)
    ids = (np.array(one.ids[:MAX_TOKENS], np.int32) for batch in found for one in batch)
    return [None if sentence is None else next(ids) for sentence in sentences]
