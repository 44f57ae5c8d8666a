"""Rows of tsv, csv, jsonl and parquet files by the names of their columns, and what a text is."""

import csv
import io
import json
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError

Fields = dict[str, Any]
Row = tuple[int, str, Fields | str]
"""The number of its first line (of a parquet file its row, from 1), its text, and its fields by
column, or what is wrong with it."""
FORMS = ("tsv", "csv", "jsonl", "parquet")
"""The forms, by the ending of a file's name."""
_LONGEST_RECORD = 100
"""Lines of a record of a tsv file."""

# NUL, halves of surrogate pairs, and what Windows-1252 that was read as Latin-1 becomes.
_NO_TEXT = re.compile("[\0\ud800-\udfff\x80-\x9f]")
_BUT_CONTROLS = re.compile("[\0\ud800-\udfff]")

csv.field_size_limit(1 << 30)  # 131,072 by default


class BadRow(Exception):
    """What is wrong with a row, in words that follow its place."""


def form_of(name: str) -> str:
    """Return the form that a file's ending stands for; `UserError` for another ending."""
    ending = Path(name).suffix.lower().removeprefix(".")
    if ending not in FORMS:
        known = ", .".join(FORMS)
        said = f"expected one of .{known}: rename or convert it, or give its 'format'"
        raise UserError(f"{name}: cannot tell its form from the ending; {said}")
    return ending


def text_fault(text: Any, controls: bool = False) -> str | None:
    """Return what is wrong with a text, or None; `controls` allows characters U+0080 to U+009F."""
    if not isinstance(text, str):
        return f"is {text!r:.80}, not text"
    if not text.strip():
        return "is empty"
    if found := (_BUT_CONTROLS if controls else _NO_TEXT).search(text):
        way = "if the file is from Windows: iconv -f windows-1252 -t utf-8"
        return f"contains U+{ord(found[0]):04X}, no character of a text; {way}"
    return None


def read_rows(path: Path, form: str, columns: Collection[str]) -> Iterator[Row]:
    """Yield a file's rows, stripped; one without all `columns` comes with what is wrong with it."""
    rows: Iterator[Row]
    if form == "parquet":
        # The plan names forms, and loads no pyarrow.
        from minbert.data.parquet import read_file

        found = enumerate(read_file(path).to_pylist(), start=1)
        rows = ((number, json.dumps(fields, default=str), fields) for number, fields in found)
    else:
        rows = rows_of(decode(path.read_bytes(), path), path, form)
    for number, line, fields in rows:
        if isinstance(fields, str):
            yield number, line, fields
        elif missing := [name for name in columns if name not in fields]:
            yield number, line, f"no column '{missing[0]}'; found {', '.join(fields)[:400]}"
        else:
            given = fields.items()
            yield number, line, {n: v.strip() if isinstance(v, str) else v for n, v in given}


def decode(content: bytes, name: Path | str) -> str:
    """Return `content` as text; `UserError` naming `name` and line if it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        raise UserError(
            f"{name}, line {line}: byte 0x{byte:02x} is not UTF-8 text; if the file is text, "
            "convert it, such as by iconv -f windows-1252 -t utf-8"
        ) from None


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of lines that are not blank; only line feeds end them, not U+2028."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip(" \r"):
            yield number, line.removesuffix("\r")


def rows_of(text: str, name: Path | str, form: str) -> Iterator[Row]:
    """Yield the rows of a text in a form; blank lines are none.

    Quoted fields of csv and tsv files may span lines. A row with other columns than the header, or
    one that is no JSON object, is yielded with what is wrong with it. Raises `UserError`, naming
    `name`, for two columns of one name, or malformed quotes of a csv.
    """
    if form == "jsonl":
        yield from ((number, line, _parsed(line)) for number, line in lines_of(text))
        return
    records = _csv(text, name) if form == "csv" else _tsv(text)
    header = [column.strip() for _, _, fields in islice(records, 1) for column in fields]
    if twice := [column for column in header if column and header.count(column) > 1]:
        raise UserError(f"{name}: two columns are called '{twice[0]}'; rename one of them")
    for number, line, fields in records:
        if len(fields) != len(header):
            yield number, line, f"{len(fields)} columns, but the header has {len(header)}"
        else:
            yield number, line, dict(zip(header, fields, strict=True))


def _parsed(line: str) -> Fields | str:
    """Return the JSON object of a line, or what is wrong with it."""
    try:
        value = json.loads(line)
    except ValueError as error:
        return f"is not JSON ({error}); expected an object in each line"
    return value if isinstance(value, dict) else "is no JSON object; expected one in each line"


def _tsv(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield (line, text, fields) of the records of a tsv file, the header first."""
    # Quotes are read as in RFC 4180, where that gives as many fields as the header has; a field may
    # span lines, if they are not rows themselves. Otherwise quotes are text, as in GLUE's files.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    at = width = 0
    while at < len(lines):
        first, fields = at, lines[at].split("\t")
        at += 1
        if not lines[first].strip(" \r"):
            continue
        width = width or len(fields)
        following = (f"{line}\n" for line in lines[first : first + _LONGEST_RECORD])
        reader = csv.reader(following, delimiter="\t", strict=True)
        with suppress(csv.Error):
            quoted = next(reader)
            taken = lines[first : first + reader.line_num]
            rows = [line.count("\t") + 1 == width for line in taken]
            if len(quoted) == width and (len(rows) == 1 or not (all(rows) or any(rows[1:-1]))):
                at, fields = first + len(rows), quoted
        yield first + 1, "\n".join(lines[first:at]), fields


def _csv(text: str, name: Path | str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield (line, text, fields) of the records of a csv file, as RFC 4180."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    number = 1
    try:
        for fields in reader:
            if any(map(str.strip, fields)):
                yield number, ",".join(fields), fields
            number = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{name}, line {number}: found malformed quotes ({error}); a field that begins with a "
            "double quote must end with one"
        ) from None
