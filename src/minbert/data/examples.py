"""The example table: one row per example, the same columns for every task and source."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from minbert.data.parquet import read_file, write_file
from minbert.data.tables import BadRow
from minbert.spec.task import Task
from minbert.store.job import Job


class Example(NamedTuple):
    """One example; `sentence2` is None for single sentences, `label` None if it is not public."""

    id: str
    split: str
    sentence1: str
    sentence2: str | None
    label: float | None


_GIVEN = [pa.field(name, pa.string(), nullable=False) for name in ("id", "split", "sentence1")]
SCHEMA = pa.schema([*_GIVEN, ("sentence2", pa.string()), ("label", pa.float64())])
ROWS = pa.schema([*_GIVEN[:2], SCHEMA.field("label"), pa.field("in_train", pa.bool_(), False)])
"""What figures read of dev and test examples, so that they are drawn where the texts are not."""

# float() also takes 0_1, nan, inf and the digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def label_of(value: Any, task: Task) -> float | None:
    """Return a label as a number, or None if there is none; `BadRow` if it is none of the task.

    A class is known by its name, or by its number from 0 unless names are numbers themselves.
    """
    if value is None or value == "":
        return None
    text, names = str(value), task.names
    if (said := text.lower()) in ("true", "false"):  # a class of this name, or 0 and 1
        text = next((name for name in names if name.lower() == said), str(int(said == "true")))
    for name in (text, text.removesuffix(".0")):
        if name in names:
            return float(names.index(name))
    named = any(_NUMBER.fullmatch(name) for name in names)
    number = float(text) if _NUMBER.fullmatch(text) and not named else math.nan
    kind = "" if task.kind == "regression" else "whole "
    if task.low <= number <= task.high and (not kind or number % 1 == 0):
        return number
    expected = [f"one of {', '.join(names[:12])}"] if names else []
    if not named:
        expected.append(f"a {kind}number from {task.low:g} to {task.high:g}")
    raise BadRow(f"label '{text[:80]}' is not {' or '.join(expected)}")


def seen(sentence1: str, sentence2: str | None) -> tuple[str, ...]:
    """Return an example's text without case, white space or the order of a pair, to compare it."""
    sentences = (s for s in (sentence1, sentence2) if s is not None)
    return tuple(sorted(" ".join(s.lower().split()) for s in sentences))


def write_examples(examples: Sequence[Example], out: Path) -> None:
    """Write `examples`, in order."""
    write_file(out, pa.Table.from_pylist([e._asdict() for e in examples], schema=SCHEMA))


def make(job: Job) -> None:
    """Write the dev and test rows of the job's data set; `in_train`: train has it (`seen`)."""
    given = read_file(job.need("examples")).to_pylist()
    rows = [(row, seen(row["sentence1"], row["sentence2"])) for row in given]
    train = {text for row, text in rows if row["split"] == "train"}
    kept = [row | {"in_train": text in train} for row, text in rows if row["split"] != "train"]
    write_file(job.out / "rows.parquet", pa.Table.from_pylist(kept, schema=ROWS))
