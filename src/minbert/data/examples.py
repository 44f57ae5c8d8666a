"""The example table: one row per example, the same columns for every task and source."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from minbert.base.errors import STAND_INS, UserError
from minbert.base.files import LARGEST, whole
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


def example_schema() -> pa.Schema:
    """Return the columns of an example table."""
    import pyarrow as pa

    given = [pa.field(name, pa.string(), nullable=False) for name in ("id", "split", "sentence1")]
    return pa.schema([*given, pa.field("sentence2", pa.string()), pa.field("label", pa.float64())])


MOST_LINES = 1_000_000
"""Of a text file, which is held in memory as examples; the course's largest have 141,506."""
LONGEST = 1_000_000
"""Characters of a sentence; tokenising takes 100 bytes for each."""

_NO_TEXT = {
    b"\x1f\x8b": ("a gzip file", "unpack it: gunzip"),
    b"PK\x03\x04": ("a zip archive", "unpack it: unzip"),
    b"BZh": ("a bzip2 file", "unpack it: bunzip2"),
    b"\xfd7zXZ": ("an xz file", "unpack it: unxz"),
    b"(\xb5/\xfd": ("a zstd file", "unpack it: unzstd"),
    b"PAR1": ("a parquet file", "export it as text"),
    b"\xff\xfe\0\0": ("UTF-32", "convert it: iconv -f utf-32 -t utf-8"),
    b"\0\0\xfe\xff": ("UTF-32", "convert it: iconv -f utf-32 -t utf-8"),
    b"\xff\xfe": ("UTF-16", "convert it: iconv -f utf-16 -t utf-8"),
    b"\xfe\xff": ("UTF-16", "convert it: iconv -f utf-16 -t utf-8"),
    **STAND_INS,
}
"""What files with these first bytes are, and the way to text."""


def decode(content: bytes, name: Path | str) -> str:
    """Return `content` as text; `UserError` naming `name` if it is too large or not UTF-8."""
    if len(content) > LARGEST:
        raise UserError(f"{name}: has more than {LARGEST >> 20} MiB, which are expected at most")
    if (lines := content.count(b"\n")) > MOST_LINES:
        raise UserError(
            f"{name}: has {lines:,} lines, expected at most {MOST_LINES:,}; split the file"
        )
    for start, (kind, way) in _NO_TEXT.items():
        if content.startswith(start):
            raise UserError(f"{name}: is {kind}, expected UTF-8 text; {way}")
    if b"\0\0" in (content[:4:2], content[1:4:2]):
        raise UserError(
            f"{name}: begins with NUL bytes, expected UTF-8 text; is it UTF-16 without a mark? "
            "Convert it: iconv -f utf-16le -t utf-8 (or utf-16be)"
        )
    if b"\r" in content and b"\n" not in content:
        raise UserError(
            f"{name}: lines end with carriage returns, expected line feeds; convert it: "
            "tr '\\r' '\\n'"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{name}, line {line}: byte 0x{content[error.start]:02x} at offset {error.start} is "
            "not UTF-8; is the file Latin-1? Convert it: iconv -f latin1 -t utf-8"
        ) from None


def split_lines(text: str) -> list[str]:
    """Return the lines of `text`, split only at line feeds: sentences may hold U+2028 and such."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


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
    if not math.isfinite(label) or not task.low <= label <= task.high:
        return f"label {_exact(label)} is not between {task.low:g} and {task.high:g}"
    if task.kind != "regression" and label != int(label):
        return f"label {_exact(label)} is not a whole number"
    return None


# float() also takes 0_1, nan, inf and the digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def number_in(text: str) -> float | None:
    """Return the number that `text` is; None if it is none."""
    return float(text) if _NUMBER.fullmatch(text) else None


def text_fault(text: str) -> str | None:
    """Return what is wrong with a sentence, as what follows its name, or None."""
    if not text.strip():
        return "is empty"
    if "\0" in text:
        return "contains a NUL byte"
    if len(text) > LONGEST:
        return f"has {len(text):,} characters, more than {LONGEST:,}"
    return None


def _exact(number: float) -> str:
    """Return the shortest decimal that is `number`, where `:g` would round 5.0000001 to 5."""
    return str(number).removesuffix(".0")


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
