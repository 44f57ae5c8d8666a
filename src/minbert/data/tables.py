"""Rows of tsv, csv, jsonl and parquet files by the names of their columns."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, nearest, no_file
from minbert.base.files import LARGEST
from minbert.data.examples import LONGEST, MOST_LINES, decode, split_lines

Fields = dict[str, Any]
Row = tuple[int, str, Fields | str]
"""The number of its first line (of a parquet file its row, from 1), its text, and its fields by
the wanted columns, or what is wrong with it."""

_LONGEST_LINE = 4 * LONGEST
_LONGEST_RECORD = 1000
"""Lines of a record of a tsv file."""
_CONTROLS = re.compile("[\x80-\x9f]")
_SHOWN = 400
"""Characters of the names of columns in a message."""


def form_of(name: str) -> str:
    """Return the form that a file's ending stands for; `UserError` for another ending."""
    ending = Path(name).suffix.lower().removeprefix(".")
    if ending not in READERS:
        raise UserError(
            f"{name}: cannot tell its form from the ending '{Path(name).suffix}'; expected one of "
            f"{', '.join(f'.{form}' for form in READERS)}: rename or convert it"
        )
    return ending


def read_rows(path: Path, form: str, columns: Sequence[str], optional: str = "") -> Iterator[Row]:
    """Yield the rows of a file with the fields of `columns`; `optional` may be missing.

    Blank lines are no rows. Quoted fields of csv and tsv files may span lines (`tsv_records`). A
    row with other columns than the header, or one that is no JSON object, is yielded with
    what is wrong with it. Raises `UserError` for a file that cannot be read, has no such column,
    or no rows.
    """
    if (wrong := no_file(path)) or not path.is_file():
        raise UserError(f"{path}: {wrong or 'there is no such file'}; check the path")
    found = False
    for row in READERS[form](path, columns, optional):
        found = True
        yield row
    if not found:
        raise UserError(f"{path}: has no rows; expected examples below the names of the columns")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = decode(file.read(LARGEST + 1), path).replace("\r\r\n", "\n")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if not text.strip():
        raise UserError(f"{path}: the file is empty; expected rows with names of columns")
    return text


def _places(
    header: Iterable[Any], columns: Sequence[str], optional: str, where: str
) -> dict[str, int]:
    """Return the place of each wanted column; `UserError` for one that is missing or twice."""
    names = [str(name).strip() for name in header]
    for name in columns:
        if names.count(name) > 1:
            raise UserError(
                f"{where}: {names.count(name)} columns are called '{name}', expected one; rename "
                "or remove the others"
            )
        if name not in names and name != optional:
            shown = ", ".join(filter(None, names))[:_SHOWN] or "none"
            raise UserError(
                f"{where}: no column '{name}'; found {shown}.{nearest(name, names[:99])} Name the "
                "file's own columns in the task (sentence1, sentence2, label, id)"
            )
    return {name: names.index(name) for name in columns if name in names}


def unicode_fault(text: str) -> str | None:
    """Return what no text should contain but `text` does, or None.

    It belongs to `text_fault`, which the keys of all data sets count.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair or a byte that is not UTF-8, expected Unicode text"
    if found := _CONTROLS.search(text):
        return (
            f"the control character U+{ord(found[0]):04X}, expected text; if the file is from "
            "Windows, convert the original: iconv -f windows-1252 -t utf-8"
        )
    return None


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return (number, line) of the lines that are not blank."""
    return [(n, line) for n, line in enumerate(split_lines(text), start=1) if line.strip(" ")]


def tsv_records(text: str) -> Iterator[tuple[int, str, list[str] | str]]:
    """Yield (line, text, fields) of the records of a tsv file, the header first.

    Quotes are read as in RFC 4180, where that gives as many fields as the header has, so that a
    field may span lines; otherwise they are text, as in GLUE's files. If lines in the middle of a
    field could be records of their own, all its lines are yielded with what is wrong with them.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_LINE))  # 131,072 by default
    lines, at, width = split_lines(text), 0, 0
    while at < len(lines):
        line, first = lines[at], at
        at += 1
        if not line.strip(" "):
            continue
        if len(line) > _LONGEST_LINE:
            yield at, line[:LONGEST], f"a line of {len(line):,} characters"
            continue
        width = width or line.count("\t") + 1
        found, count = _quoted(lines, first)
        span = lines[first : first + count]
        whole = [each.count("\t") + 1 == width for each in span]
        if len(found) != width or (count > 1 and all(whole)):
            yield at, line, line.split("\t")
            continue
        at = first + count
        if any(whole[1:-1]):
            wrong = f"lines {first + 1} to {at} can be one row, or several rows; save it as csv"
            for number, each in enumerate(span, start=first + 1):
                yield number, each, wrong
        else:
            yield first + 1, "\n".join(span), found


def _quoted(lines: Sequence[str], first: int) -> tuple[list[str], int]:
    """Return the fields of the record that begins at a line, as RFC 4180, and its lines' number.

    There are no fields if its quotes are malformed.
    """
    last = min(len(lines), first + _LONGEST_RECORD)
    following = (f"{lines[at]}\n" for at in range(first, last))
    reader = csv.reader(following, delimiter="\t", strict=True)
    try:
        return next(reader), reader.line_num
    except csv.Error:
        return [], 1


def _tsv(path: Path, columns: Sequence[str], optional: str) -> Iterator[Row]:
    header: list[str] | None = None
    places: dict[str, int] = {}
    for number, line, fields in tsv_records(_text(path)):
        if isinstance(fields, str):
            yield number, line, fields
        elif header is None:
            header = fields
            if len(header) == 1 and len(columns) > 1:
                raise UserError(
                    f"{path}, line {number}: no tab in the header '{header[0][:80]}'; expected "
                    f"tabs between the columns, among them {', '.join(columns)}. Are they "
                    "separated by commas? Call it .csv"
                )
            places = _places(header, columns, optional, f"{path}, line {number}")
        else:
            yield number, line, _named(fields, places, len(header))


def _named(fields: Sequence[str], places: Mapping[str, int], width: int) -> Fields | str:
    if len(fields) != width:
        return f"{len(fields)} columns, but the header has {width}"
    return {name: fields[at].strip() for name, at in places.items()}


def csv_records(text: str, name: Path | str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, fields) of the records of a csv file; one of several lines counts at its first.

    Blank lines are left out. Raises `UserError`, naming `name` and the line, for malformed quotes.
    """
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # 131,072 by default
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise UserError(
                f"{name}, line {number}: found malformed quotes ({error}); a field that begins "
                "with a double quote must end with one, and double those inside it"
            ) from None
        if fields is None:
            return
        if fields and not (len(fields) == 1 and fields[0].isspace()):
            yield number, fields


def _csv(path: Path, columns: Sequence[str], optional: str) -> Iterator[Row]:
    header: list[str] | None = None
    places: dict[str, int] = {}
    for number, fields in csv_records(_text(path), path):
        if header is None:
            header = fields
            if len(header) == 1 and len(columns) > 1:
                raise UserError(
                    f"{path}, line {number}: no comma in the header '{header[0][:80]}'; expected "
                    f"commas between the columns, among them {', '.join(columns)}. Are they "
                    "separated by tabs? Call it .tsv"
                )
            places = _places(header, columns, optional, f"{path}, line {number}")
        else:
            yield number, ",".join(fields), _named(fields, places, len(header))


def json_lines(text: str, name: Path | str) -> list[tuple[int, str]]:
    """Return (number, line) of a jsonl file; `UserError`, naming `name`, if it is one array."""
    lines = lines_of(text)
    if lines and lines[0][1].lstrip()[:1] == "[" and lines[-1][1].rstrip()[-1:] == "]":
        with suppress(ValueError, RecursionError):
            json.loads(text)
            raise UserError(
                f"{name}: is one JSON array, expected an object per line; convert it: jq -c '.[]'"
            )
    return lines


def _jsonl(path: Path, columns: Sequence[str], optional: str) -> Iterator[Row]:
    lines = json_lines(_text(path), path)
    first = _parsed(lines[0][1]) if lines else None
    if isinstance(first, dict):
        _places(first, columns, optional, f"{path}, line {lines[0][0]}")
    for number, line in lines:
        value = _parsed(line)
        if isinstance(value, dict):
            fields = {name: value[name] for name in columns if name in value}
            missing = [name for name in columns if name not in value and name != optional]
            yield number, line, f"no key '{missing[0]}'" if missing else _stripped(fields)
        else:
            yield number, line, value


def _parsed(line: str) -> dict[str, Any] | str:
    """Return the JSON object of a line, or what is wrong with it."""
    if len(line) > _LONGEST_LINE:
        return f"a line of {len(line):,} characters"
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"is not JSON ({error})"
    return value if isinstance(value, dict) else "is no JSON object"


def _stripped(fields: Fields) -> Fields:
    return {name: v.strip() if isinstance(v, str) else v for name, v in fields.items()}


def _parquet(path: Path, columns: Sequence[str], optional: str) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            places = _places(file.schema_arrow.names, columns, optional, str(path))
            if (count := file.metadata.num_rows) > MOST_LINES:
                raise UserError(f"{path}: has {count:,} rows, expected at most {MOST_LINES:,}")
            rows = file.read(list(places)).to_pylist()
    except UnicodeDecodeError:
        raise UserError(f"{path}: has text that is not UTF-8; write the file again") from None
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: is damaged or not a parquet file ({error})") from None
    for number, fields in enumerate(rows, start=1):
        yield number, json.dumps(fields, default=str, ensure_ascii=False), _stripped(fields)


READERS: dict[str, Callable[[Path, Sequence[str], str], Iterator[Row]]] = {
    "tsv": _tsv,
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
"""The forms, by the ending of a file's name."""
