"""Rows of tsv, csv, jsonl and parquet files by the names of their columns."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from minbert.base.errors import STAND_INS, UserError, nearest, no_file
from minbert.base.files import LARGEST

Fields = dict[str, Any]
Row = tuple[int, str, Fields | str]
"""The number of its first line (of a parquet file its row, from 1), its text, and its fields by
the wanted columns, or what is wrong with it."""

FORMS = ("tsv", "csv", "jsonl", "parquet")
"""The forms, by the ending of a file's name."""

MOST_LINES = 1_000_000
"""Of a file, which is held in memory as examples; the course's largest has 141,506."""
_LONGEST_RECORD = 1000
"""Lines of a record of a tsv file."""
_CONTROLS = re.compile("[\x80-\x9f]")

_NO_TEXT = {
    b"\x1f\x8b": ("a gzip file", "unpack it: gunzip"),
    b"PK\x03\x04": ("a zip archive", "unpack it: unzip"),
    b"PAR1": ("a parquet file", "export it as text"),
    b"\xff\xfe": ("UTF-16", "convert it: iconv -f utf-16 -t utf-8"),
    b"\xfe\xff": ("UTF-16", "convert it: iconv -f utf-16 -t utf-8"),
    **STAND_INS,
}
"""What files with these first bytes are, and the way to text."""

csv.field_size_limit(LARGEST)  # 131,072 by default


def form_of(name: str) -> str:
    """Return the form that a file's ending stands for; `UserError` for another ending."""
    ending = Path(name).suffix.lower().removeprefix(".")
    if ending not in FORMS:
        raise UserError(
            f"{name}: cannot tell its form from the ending '{Path(name).suffix}'; expected one of "
            f"{', '.join(f'.{form}' for form in FORMS)}: rename or convert it, or give its 'format'"
        )
    return ending


def read_rows(path: Path, form: str, columns: Sequence[str], optional: str = "") -> Iterator[Row]:
    """Yield the rows of a file with the fields of `columns`; `optional` may be missing.

    Other columns are ignored, blank lines are no rows, and white space around a field is removed.
    Quoted fields of csv and tsv files may span lines (`tsv_records`). A row with other columns
    than the header, or one that is no JSON object, is yielded with what is wrong with it. Raises
    `UserError` for a file that cannot be read, has no such column, or no rows.
    """
    if (wrong := no_file(path)) or not path.is_file():
        raise UserError(f"{path}: {wrong or 'there is no such file'}; check the path")
    if form == "parquet":
        rows = _parquet(path, columns, optional)
    else:
        try:
            with path.open("rb") as file:
                text = decode(file.read(LARGEST + 1), path).replace("\r\r\n", "\n")
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        if not text.strip():
            raise UserError(f"{path}: the file is empty; expected rows with names of columns")
        read = _jsonl if form == "jsonl" else _tsv if form == "tsv" else _csv
        rows = read(text, path, columns, optional)
    found = False
    for number, line, fields in rows:
        found = True
        yield number, line, fields if isinstance(fields, str) else _stripped(fields)
    if not found:
        raise UserError(f"{path}: has no rows; expected examples below the names of the columns")


def _stripped(fields: Fields) -> Fields:
    return {name: v.strip() if isinstance(v, str) else v for name, v in fields.items()}


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
    if b"\r" in content and b"\n" not in content:
        raise UserError(
            f"{name}: lines end with carriage returns, expected line feeds; convert it: "
            "tr '\\r' '\\n'"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        # Latin-1 has only control characters there, and Windows quotes and dashes.
        kind = "Windows-1252" if byte < 0xA0 else "Latin-1"
        way = f"iconv -f {'windows-1252' if byte < 0xA0 else 'latin1'} -t utf-8"
        raise UserError(
            f"{name}, line {line}: byte 0x{byte:02x} at offset {error.start} is not UTF-8; is the "
            f"file {kind}? Convert it: {way}"
        ) from None


def split_lines(text: str) -> list[str]:
    """Return the lines of `text`, split only at line feeds: sentences may hold U+2028 and such."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return (number, line) of the lines that are not blank."""
    return [(n, line) for n, line in enumerate(split_lines(text), start=1) if line.strip(" ")]


def unicode_fault(text: str) -> str | None:
    """Return what no text should contain but `text` does, or None."""
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


def tsv_records(text: str) -> Iterator[tuple[int, str, list[str] | str]]:
    """Yield (line, text, fields) of the records of a tsv file, the header first.

    Quotes are read as in RFC 4180, where that gives as many fields as the header has, so that a
    field may span lines; otherwise they are text, as in GLUE's files. If lines in the middle of a
    field could be records of their own, all its lines are yielded with what is wrong with them.
    """
    lines, at, width = split_lines(text), 0, 0
    while at < len(lines):
        line, first = lines[at], at
        at += 1
        if not line.strip(" "):
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


def csv_records(text: str, name: Path | str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, fields) of the records of a csv file; one of several lines counts at its first.

    Blank lines are left out. Raises `UserError`, naming `name` and the line, for malformed quotes.
    """
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


def _tsv(text: str, path: Path, columns: Sequence[str], optional: str) -> Iterator[Row]:
    return _below_header(tsv_records(text), path, columns, optional, "tab", "commas? Call it .csv")


def _csv(text: str, path: Path, columns: Sequence[str], optional: str) -> Iterator[Row]:
    records = ((number, ",".join(fields), fields) for number, fields in csv_records(text, path))
    return _below_header(records, path, columns, optional, "comma", "tabs? Call it .tsv")


def _below_header(
    records: Iterable[tuple[int, str, list[str] | str]],
    path: Path,
    columns: Sequence[str],
    optional: str,
    between: str,
    other: str,
) -> Iterator[Row]:
    header: list[str] | None = None
    places: dict[str, int] = {}
    for number, line, fields in records:
        if isinstance(fields, str):
            yield number, line, fields
        elif header is None:
            header = fields
            if len(header) == 1 and len(columns) > 1:
                raise UserError(
                    f"{path}, line {number}: no {between} in the header '{header[0][:80]}'; "
                    f"expected {between}s between the columns, among them {', '.join(columns)}. "
                    f"Are they separated by {other}"
                )
            places = _places(header, columns, optional, f"{path}, line {number}")
        elif len(fields) != len(header):
            yield number, line, f"{len(fields)} columns, but the header has {len(header)}"
        else:
            yield number, line, {name: fields[at] for name, at in places.items()}


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
            shown = ", ".join(filter(None, names))[:400] or "none"
            raise UserError(
                f"{where}: no column '{name}'; found {shown}.{nearest(name, names[:99])} Name the "
                "file's own columns in the task (sentence1, sentence2, label, id)"
            )
    return {name: names.index(name) for name in columns if name in names}


def _jsonl(text: str, path: Path, columns: Sequence[str], optional: str) -> Iterator[Row]:
    lines = json_lines(text, path)
    first = _parsed(lines[0][1])
    if isinstance(first, Mapping):
        _places(first, columns, optional, f"{path}, line {lines[0][0]}")
    for number, line in lines:
        value = _parsed(line)
        if isinstance(value, dict):
            missing = [name for name in columns if name not in value and name != optional]
            fields = {name: value[name] for name in columns if name in value}
            yield number, line, f"no key '{missing[0]}'" if missing else fields
        else:
            yield number, line, value


def _parsed(line: str) -> Fields | str:
    """Return the JSON object of a line, or what is wrong with it."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"is not JSON ({error})"
    return value if isinstance(value, dict) else "is no JSON object"


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
        yield number, json.dumps(fields, default=str, ensure_ascii=False), fields
