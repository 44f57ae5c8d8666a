"""The example table: one row an example, the same columns for every task and source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from minbert.common.errors import UserError, nearest
from minbert.common.files import whole
from minbert.grid.tasks import TASKS, Task

if TYPE_CHECKING:  # a plan names sources and reads no table: it need not wait for pyarrow
    import pyarrow as pa

SPLITS = ("train", "dev", "test")


class Example(NamedTuple):
    """One example; `sentence2` is None for tasks of one sentence, `label` None if not public."""

    id: str
    split: str
    sentence1: str
    sentence2: str | None
    label: float | None


class Rejected(NamedTuple):
    """A row set aside: `file` and `line` (from 1) where it stood, why, and its raw text."""

    file: str
    line: int
    reason: str
    text: str
    split: str


def example_schema() -> pa.Schema:
    """Return the columns of an example table."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("split", pa.string(), nullable=False),
            pa.field("sentence1", pa.string(), nullable=False),
            pa.field("sentence2", pa.string()),
            pa.field("label", pa.float64()),
        ]
    )


def known_task(name: str) -> Task:
    """Return the task `name`; an unknown one raises `UserError`."""
    if name not in TASKS:
        raise UserError(f"unknown task '{name}'; known: {', '.join(TASKS)}.{nearest(name, TASKS)}")
    return TASKS[name]


def fault(example: Example, task: Task) -> str | None:
    """Return what is wrong with `example` as one of `task`, or None if it is fine.

    A label lies in [`task.low`, `task.high`]; it is a whole number unless the task is a
    regression; only test examples may have none.
    """
    if not example.id or any(c.isspace() for c in example.id):
        return f"id '{example.id}' is empty or has white space in it"
    if example.split not in SPLITS:
        return f"split '{example.split}' is not one of {', '.join(SPLITS)}"
    if task.pair != (example.sentence2 is not None):
        found = "one sentence" if task.pair else "two sentences"
        return f"{found}, where task '{task.name}' has {'two' if task.pair else 'one'}"
    for name, text in (("sentence1", example.sentence1), ("sentence2", example.sentence2)):
        if text is not None and not text.strip():
            return f"{name if task.pair else 'sentence'} is empty"
        if text is not None and "\0" in text:
            return f"{name if task.pair else 'sentence'} has a NUL byte in it"
    return _label_fault(example, task)


def _label_fault(example: Example, task: Task) -> str | None:
    label = example.label
    if label is None:
        return None if example.split == "test" else f"no label, but it is a {example.split} row"
    if not math.isfinite(label) or not task.low <= label <= task.high:
        return f"label {label:g} is not between {task.low:g} and {task.high:g}"
    if task.kind != "regression" and label != int(label):
        return f"label {label:g} is not a whole number"
    return None


def write_examples(task: str, examples: Sequence[Example], out: Path) -> None:
    """Write `examples` of `task` to the parquet file `out`, in their order.

    Raises `UserError` naming the id for the first example that is not valid, or whose id
    another one has, in whatever split: ids tell the examples of a data set apart.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    known = known_task(task)
    if not examples:
        raise UserError(f"task '{task}': no example at all")
    seen: set[str] = set()
    for example in examples:
        reason = fault(example, known)
        if example.id in seen:
            reason = "another example has the same id"
        if reason:
            raise UserError(f"task '{task}', example '{example.id}' ({example.split}): {reason}")
        seen.add(example.id)
    columns = dict(zip(Example._fields, zip(*examples, strict=True), strict=True))
    table = pa.table(
        {name: list(values) for name, values in columns.items()}, schema=example_schema()
    )
    with whole(out) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_examples(path: Path) -> pa.Table:
    """Return the example table at `path`; one with other columns raises `UserError`."""
    table = read_parquet(path)
    return checked_schema(table, example_schema(), path)


def read_parquet(path: Path) -> pa.Table:
    """Read a parquet file; a missing or damaged one raises `UserError` naming it."""
    import pyarrow as pa

    from minbert.common.parquet import read_file

    try:
        return read_file(path)
    except FileNotFoundError as error:
        raise UserError(f"no such table: {path}") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(
            f"{path}: not a parquet file ({error}); delete it, so that it is made anew"
        ) from error


def checked_schema(table: pa.Table, schema: pa.Schema, path: Path) -> pa.Table:
    """Return `table` if its columns have the names and types of `schema`, else `UserError`."""
    found, expected = _described(table.schema), _described(schema)
    if found != expected:
        raise UserError(f"{path}: expected columns {expected}, found {found}")
    return table


def _described(fields: Iterable[pa.Field]) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in fields)
