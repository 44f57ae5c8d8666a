"""Rows of tsv, csv, jsonl and parquet files by the names of their columns, and what a text is."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, did_you_mean

Fields = dict[str, Any]
Row = tuple[int, str, Fields | str]
"""The number of its first line (of a parquet file its row, from 1), its text, and its fields by
column, or what is wrong with it."""

FORMS = ("tsv", "csv", "jsonl", "parquet")
"""The forms, by the ending of a file's name."""

LONGEST = 1_000_000
"""Characters of a sentence; tokenising takes 100 bytes for each."""
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
        raise UserError(
            f"{name}: cannot tell its form from the ending; expected one of .{', .'.join(FORMS)}: "
            "rename or convert it, or give its 'format'"
        )
    return ending


def text_fault(text: Any, controls: bool = False) -> str | None:
    """Return what is wrong with a text, as what follows its name, or None.

    With `controls` it may have control characters from U+0080 to U+009F.
    """
    if not isinstance(text, str):
        return f"is {json.dumps(text, default=str)[:80]}, not text"
    if not text.strip():
        return "is empty"
    if found := (_BUT_CONTROLS if controls else _NO_TEXT).search(text):
        return (
            f"contains U+{ord(found[0]):04X}, no character of a text; if the file is from Windows, "
            "convert the original: iconv -f windows-1252 -t utf-8"
        )
    if len(text) > LONGEST:
        return f"has {len(text):,} characters, more than {LONGEST:,}"
    return None


def read_rows(path: Path, form: str, columns: Sequence[str], optional: str = "") -> Iterator[Row]:
    """Yield the rows of a file that has `columns`; `optional` may be missing.

    White space around a field is removed. Raises `UserError` for a file that cannot be read, has
    no such column, or no rows.
    """
    needed, checked, number = [name for name in columns if name != optional], False, 0
    if form == "parquet":
        rows = _parquet(path)
    else:
        rows = rows_of(decode(path.read_bytes(), path), path, form)
    for number, line, fields in rows:
        if isinstance(fields, str):
            yield number, line, fields
            continue
        missing, found = [name for name in needed if name not in fields], list(fields)
        if missing and checked:
            yield number, line, f"no key '{missing[0]}'"
            continue
        if missing:
            raise UserError(
                f"{path}, line {number}: no column '{missing[0]}'; found {', '.join(found)[:400]}."
                f"{did_you_mean(missing[0], found[:99])} Name the file's own columns in the task "
                "(sentence1, sentence2, label, id), or its 'format' if they are not split"
            )
        checked = True
        given = {name: fields[name] for name in columns if name in fields}
        stripped = {n: v.strip() if isinstance(v, str) else v for n, v in given.items()}
        yield number, line, stripped
    if not number:
        raise UserError(f"{path}: has no rows; expected examples below the names of the columns")


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


def split_lines(text: str) -> list[str]:
    """Return the lines of `text`, split only at line feeds: sentences may hold U+2028 and such."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines that are not blank."""
    return ((n, line) for n, line in enumerate(split_lines(text), start=1) if line.strip(" "))


def rows_of(text: str, name: Path | str, form: str) -> Iterator[Row]:
    """Yield the rows of a text in a form; blank lines are none.

    Quoted fields of csv and tsv files may span lines. A row with other columns than the header, or
    one that is no JSON object, is yielded with what is wrong with it. Raises `UserError`, naming
    `name`, for two columns of one name, or malformed quotes of a csv.
    """
    if form == "jsonl":
        yield from ((number, line, _parsed(line)) for number, line in lines_of(text))
        return
    header: list[str] = []
    for number, line, fields in _csv(text, name) if form == "csv" else _tsv(text):
        if not header:
            header = [column.strip() for column in fields]
            named = [*filter(None, header)]  # several columns may have no name
            if twice := [column for column in named if named.count(column) > 1]:
                raise UserError(f"{name}: two columns are called '{twice[0]}'; rename one of them")
        elif len(fields) != len(header):
            yield number, line, f"{len(fields)} columns, but the header has {len(header)}"
        else:
            yield number, line, dict(zip(header, fields, strict=True))


def _parsed(line: str) -> Fields | str:
    """Return the JSON object of a line, or what is wrong with it."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"is not JSON ({error}); expected an object in each line"
    return value if isinstance(value, dict) else "is no JSON object; expected one in each line"


def _tsv(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield (line, text, fields) of the records of a tsv file, the header first.

    Quotes are read as in RFC 4180, where that gives as many fields as the header has; a field may
    span lines, if they are not rows of their own. Otherwise quotes are text, as in GLUE's files.
    """
    lines, at, width = split_lines(text), 0, 0
    while at < len(lines):
        first, fields = at, lines[at].split("\t")
        at += 1
        if not lines[first].strip(" "):
            continue
        width = width or len(fields)
        following = (f"{line}\n" for line in lines[first : first + _LONGEST_RECORD])
        reader = csv.reader(following, delimiter="\t", strict=True)
        with suppress(csv.Error):
            quoted = next(reader)
            span = lines[first : first + reader.line_num]
            rows = [line.count("\t") + 1 == width for line in span]
            together = len(span) == 1 or not (all(rows) or any(rows[1:-1]))
            if len(quoted) == width and together:
                at, fields = first + len(span), quoted
        yield first + 1, "\n".join(lines[first:at]), fields


def _csv(text: str, name: Path | str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield (line, text, fields) of the records of a csv file, as RFC 4180."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    number = 1
    try:
        for fields in reader:
            if fields and not (len(fields) == 1 and fields[0].isspace()):
                yield number, ",".join(fields), fields
            number = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{name}, line {number}: found malformed quotes ({error}); a field that begins with a "
            "double quote must end with one, and double those inside it"
        ) from None


def _parquet(path: Path) -> Iterator[Row]:
    # The plan names forms, and loads no pyarrow.
    from minbert.data.parquet import read_file

    batches = read_file(path).to_batches(max_chunksize=10_000)
    rows = (fields for batch in batches for fields in batch.to_pylist())
    for number, fields in enumerate(rows, start=1):
        yield number, json.dumps(fields, default=str, ensure_ascii=False), fields
