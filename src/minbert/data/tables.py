"""Rows of tsv, csv, jsonl and parquet files by the names of their columns, and what a text is."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from minbert.base.errors import WRONG_FILE_MAGIC, UserError, did_you_mean

Fields = dict[str, Any]
Row = tuple[int, str, Fields | str]
"""The number of its first line (of a parquet file its row, from 1), its text, and its fields by
column, or what is wrong with it."""

FORMS = ("tsv", "csv", "jsonl", "parquet")
"""The forms, by the ending of a file's name."""

LONGEST = 1_000_000
"""Characters of a sentence; tokenising takes 100 bytes for each."""
_LONGEST_RECORD = 1000
"""Lines of a record of a tsv file."""
# NUL, halves of surrogate pairs, and what Windows-1252 that was read as Latin-1 becomes.
_NO_TEXT = re.compile("[\0\ud800-\udfff\x80-\x9f]")
_BUT_CONTROLS = re.compile("[\0\ud800-\udfff]")

_NO_TABLE = {
    b"\x1f\x8b": ("a gzip file", "unpack it: gunzip"),
    b"PK\x03\x04": ("a zip archive", "unpack it: unzip"),
    b"PAR1": ("a parquet file", "call it .parquet"),
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), ("UTF-16", "convert it: iconv -f utf-16 -t utf-8")),
    **WRONG_FILE_MAGIC,
}
"""What files with these first bytes are, and the way to text."""

csv.field_size_limit(1 << 30)  # 131,072 by default


class BadRow(Exception):
    """What is wrong with a row, in words that follow its place."""


def form_of(name: str) -> str:
    """Return the form that a file's ending stands for; `UserError` for another ending."""
    ending = Path(name).suffix.lower().removeprefix(".")
    if ending not in FORMS:
        raise UserError(
            f"{name}: cannot tell its form from the ending '{Path(name).suffix}'; expected one of "
            f"{', '.join(f'.{form}' for form in FORMS)}: rename or convert it, or give its 'format'"
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
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; check the path")
    if form == "parquet":
        rows = _parquet(path, columns, optional)
    else:
        rows = rows_of(decode(path.read_bytes(), path), path, form)
    checked, number = False, 0
    for number, line, fields in rows:
        if isinstance(fields, str):
            yield number, line, fields
            continue
        missing = [name for name in columns if name not in fields and name != optional]
        if missing and not checked:
            raise _no_column(path, missing[0], list(fields))
        checked = True
        stripped = {n: v.strip() if isinstance(v, str) else v for n, v in fields.items()}
        yield number, line, f"no key '{missing[0]}'" if missing else stripped
    if not number:
        raise UserError(f"{path}: has no rows; expected examples below the names of the columns")


def _no_column(path: Path, name: str, found: list[str]) -> UserError:
    way = "Name the file's own columns in the task (sentence1, sentence2, label, id)"
    if len(found) == 1 and re.search("[\t,]", found[0]):
        way = "Are its columns separated by tabs in a .csv, or commas in a .tsv? Give its 'format'"
    shown = ", ".join(filter(None, found))[:400] or "none"
    return UserError(
        f"{path}: no column '{name}'; found {shown}.{did_you_mean(name, found[:99])} {way}"
    )


def decode(content: bytes, name: Path | str) -> str:
    """Return `content` as text; `UserError` naming `name` and line if it is not UTF-8."""
    for start, (kind, way) in _NO_TABLE.items():
        if content.startswith(start):
            raise UserError(f"{name}: is {kind}, expected UTF-8 text; {way}")
    try:
        text = content.decode("utf-8-sig").replace("\r\r\n", "\n")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        raise UserError(
            f"{name}, line {line}: byte 0x{byte:02x} at offset {error.start} is not UTF-8; is the "
            "file Windows-1252, or Latin-1? Convert it: iconv -f windows-1252 -t utf-8"
        ) from None
    # Old programs of the Macintosh end lines so.
    return text if "\n" in text else text.replace("\r", "\n")


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
    `name` and the line, for two columns of one name, or malformed quotes of a csv.
    """
    if form == "jsonl":
        yield from ((number, line, _parsed(line)) for number, line in lines_of(text))
        return
    header: list[str] = []
    for number, line, fields in _csv(text, name) if form == "csv" else _tsv(text):
        if isinstance(fields, str):
            yield number, line, fields
        elif not header:
            header = [column.strip() for column in fields]
            _check_names(header, f"{name}, line {number}")
        elif len(fields) != len(header):
            yield number, line, f"{len(fields)} columns, but the header has {len(header)}"
        else:
            yield number, line, dict(zip(header, fields, strict=True))


def _check_names(header: Sequence[str], where: str) -> None:
    """Refuse a header that has a name twice; several columns may have none."""
    for name, count in Counter(filter(None, header)).most_common(1):
        if count > 1:
            raise UserError(
                f"{where}: {count} columns are called '{name}', expected one; rename or remove the "
                "others"
            )


def _parsed(line: str) -> Fields | str:
    """Return the JSON object of a line, or what is wrong with it."""
    try:
        value = json.loads(line, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        value, wrong = None, f"is not JSON ({error})"
    else:
        wrong = "is no JSON object"
    way = "; expected one in each line. An array is converted by jq -c '.[]'"
    return value if isinstance(value, dict) else wrong + way


def _object(pairs: list[tuple[str, Any]]) -> Fields:
    if len(found := dict(pairs)) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"it has the key '{twice[:80]}' twice")
    return found


def _tsv(text: str) -> Iterator[tuple[int, str, list[str] | str]]:
    """Yield (line, text, fields) of the records of a tsv file, the header first.

    Quotes are read as in RFC 4180, where that gives as many fields as the header has, so that a
    field may span lines; otherwise they are text, as in GLUE's files. If lines in the middle of a
    field could be records of their own, all its lines are yielded with what is wrong with them.
    """
    lines, at, width = split_lines(text), 0, 0
    while at < len(lines):
        first, line = at, lines[at]
        at += 1
        if not line.strip(" "):
            continue
        fields = line.split("\t")
        width = width or len(fields)
        last = min(len(lines), first + _LONGEST_RECORD)
        following = (f"{lines[number]}\n" for number in range(first, last))
        reader = csv.reader(following, delimiter="\t", strict=True)
        with suppress(csv.Error):
            quoted = next(reader)
            span = lines[first : first + reader.line_num]
            whole = [each.count("\t") + 1 == width for each in span]
            if len(quoted) == width and (len(span) == 1 or not all(whole)):
                at = first + len(span)
                if any(whole[1:-1]):
                    wrong = f"lines {first + 1} to {at} can be one row, or several rows"
                    for number, each in enumerate(span, start=first + 1):
                        yield number, each, f"{wrong}; save it as csv"
                    continue
                line, fields = "\n".join(span), quoted
        yield first + 1, line, fields


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


def _parquet(path: Path, columns: Sequence[str], optional: str) -> Iterator[Row]:
    # The plan names forms, and loads no pyarrow.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            header = file.schema_arrow.names
            _check_names(header, str(path))
            if missing := [n for n in columns if n not in header and n != optional]:
                raise _no_column(path, missing[0], header)
            rows = file.read([name for name in columns if name in header]).to_pylist()
    except UnicodeDecodeError:
        raise UserError(f"{path}: has text that is not UTF-8; write the file again") from None
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"{path}: is damaged or not a parquet file ({error}); write or download it again"
        ) from None
    for number, fields in enumerate(rows, start=1):
        yield number, json.dumps(fields, default=str, ensure_ascii=False), fields
