"""The example table: one row per example, the same columns for every task and source."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.spec.protocol import SPLITS
from minbert.spec.task import TASKS, Task

if TYPE_CHECKING:  # The plan names sources but reads no table, so it does not load pyarrow.
    import pyarrow as pa


class Example(NamedTuple):
    """One example; `sentence2` is None for single sentences, `label` None if it is not public."""

    id: str
    split: str
    sentence1: str
    sentence2: str | None
    label: float | None


class Rejected(NamedTuple):
    """A rejected row: its file and line (from 1), the reason, its raw text and its split."""

    file: str
    line: int
    reason: str
    text: str
    split: str


LONGEST = 1_000_000
"""Characters of a sentence; tokenising takes 100 bytes for each."""


def fault(example: Example, task: Task) -> str | None:
    """Return what is wrong with `example` as one of `task`, or None."""
    if not example.id or any(c.isspace() for c in example.id):
        return f"id '{example.id[:80]}' is empty or contains white space"
    if example.split not in SPLITS:
        return f"split '{example.split}' is not one of {', '.join(SPLITS)}"
    if task.pair != (example.sentence2 is not None):
        found = "one sentence" if task.pair else "two sentences"
        return f"{found}, but task '{task.name}' has {'two' if task.pair else 'one'}"
    for number, text in enumerate((example.sentence1, example.sentence2), 1):
        if text is not None and (wrong := text_fault(text)):
            return f"sentence{number if task.pair else ''} {wrong}"
    label = example.label
    if label is None:
        return None if example.split == "test" else f"a {example.split} row without a label"
    # `:g` would show 5.0000001 as 5.
    exact = str(label).removesuffix(".0")
    if not math.isfinite(label) or not task.low <= label <= task.high:
        return f"label {exact} is not between {task.low:g} and {task.high:g}"
    if task.kind != "regression" and label != int(label):
        return f"label {exact} is not a whole number"
    return None


def text_fault(text: str) -> str | None:
    """Return what is wrong with a sentence, as what follows its name, or None."""
    if not text.strip():
        return "is empty"
    if "\0" in text:
        return "contains a NUL byte"
    if len(text) > LONGEST:
        return f"has {len(text):,} characters, more than {LONGEST:,}"
    return None


# float() also takes 0_1, nan, inf and the digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def label_of(value: Any, task: Task) -> float | str | None:
    """Return a label as a number, None if there is none, or what is wrong with it.

    A class is known by its name, else by its number from 0; not by its number if names are numbers
    themselves.
    """
    if value is None or value == "":
        return None
    text, names = str(value), task.names
    if (said := text.lower()) in ("true", "false"):  # a class of this name, or 0 and 1
        text = next((name for name in names if name.lower() == said), str(int(said == "true")))
    for name in (text, text.removesuffix(".0")):
        if name in names:
            return float(names.index(name))
    number = float(text) if _NUMBER.fullmatch(text) else None
    if number is None and not names:
        return f"label '{text[:80]}' is not a number"
    named = any(_NUMBER.fullmatch(name) for name in names)
    if number is None or (names and (named or not 0 <= number < len(names))):
        shown = ", ".join(names[:12]) + (" ..." if len(names) > 12 else "")
        numbers = "" if named else f", or 0 to {len(names) - 1}"
        return f"label '{text[:80]}' is not one of {shown}{numbers}"
    return number


def seen(sentence1: str, sentence2: str | None) -> tuple[str, ...]:
    """Return an example's text without case, white space or the order of a pair, to compare it."""
    sentences = (s for s in (sentence1, sentence2) if s is not None)
    return tuple(sorted(" ".join(s.lower().split()) for s in sentences))


def overlapping(examples: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return, for dev and test, the ids of the examples whose text (`seen`) is also in train."""
    rows = [(e["split"], e["id"], seen(e["sentence1"], e["sentence2"])) for e in examples]
    train = {text for split, _, text in rows if split == "train"}
    return {
        wanted: {name for split, name, text in rows if split == wanted and text in train}
        for wanted in ("dev", "test")
    }


def example_schema() -> pa.Schema:
    """Return the columns of an example table."""
    import pyarrow as pa

    given = [pa.field(name, pa.string(), nullable=False) for name in ("id", "split", "sentence1")]
    return pa.schema([*given, pa.field("sentence2", pa.string()), pa.field("label", pa.float64())])


def write_examples(task: str, examples: Sequence[Example], out: Path) -> None:
    """Write `examples` of `task`, in order; `UserError` names an invalid one or a repeated id."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not examples:
        raise UserError(f"task '{task}': there are no examples")
    ids: set[str] = set()
    for example in examples:
        reason = fault(example, TASKS[task])
        if example.id in ids:
            reason = "another example has the same id"
        if reason:
            raise UserError(f"task '{task}', example '{example.id}' ({example.split}): {reason}")
        ids.add(example.id)
    table = pa.Table.from_pylist([e._asdict() for e in examples], schema=example_schema())
    with whole(out) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_examples(path: Path) -> pa.Table:
    """Return the example table at `path`; one with other columns raises `UserError`."""
    from minbert.data.parquet import read_file

    table = read_file(path)
    found, expected = (
        ", ".join(f"{field.name} {field.type}" for field in schema)
        for schema in (table.schema, example_schema())
    )
    if found != expected:
        raise UserError(f"{path}: expected columns {expected}, found {found}")
    return table
