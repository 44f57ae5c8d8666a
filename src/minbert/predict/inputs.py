"""Sentences and pairs to predict: from the command line, a file or standard input.

All of an input is read and checked before the first prediction is made.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from minbert.common.errors import UserError
from minbert.grid.tasks import Task

FORMATS = ("text", "csv", "tsv", "jsonl")
ONE_SENTENCE = ("sentence1", "sentence", "text")
"""Names of the column or key of a single sentence, the first that is there counts."""
PAIR = ("sentence1", "sentence2")


class Item(NamedTuple):
    """One example: where it stood (for errors), its id if it has one, its sentences."""

    where: str
    id: str | int | None
    sentence1: str
    sentence2: str | None


@dataclass(frozen=True)
class _Shape:
    """What the rows of a task hold."""

    task: Task

    @property
    def wish(self) -> str:
        name = f"(task '{self.task.name}' has {'two' if self.task.pair else 'one'})"
        return f"{'two sentences' if self.task.pair else 'one sentence'} {name}"

    def item(self, where: str, number: str | int | None, *sentences: str) -> Item:
        """Return the example of `sentences`; `UserError` if they are not what the task has."""
        if len(sentences) != 1 + self.task.pair:
            raise UserError(f"{where}: found {len(sentences)} sentences, expected {self.wish}")
        for text in sentences:
            if not text.strip():
                raise UserError(f"{where}: found an empty sentence, expected {self.wish}")
            if "\0" in text:
                raise UserError(f"{where}: found a NUL byte in a sentence; is the file text?")
            try:
                text.encode()
            except UnicodeEncodeError:
                raise UserError(
                    f"{where}: found half of a surrogate pair or a byte that is not UTF-8 in a "
                    "sentence, expected Unicode text"
                ) from None
        return Item(where, number, sentences[0], sentences[1] if self.task.pair else None)


def from_words(words: Sequence[str], task: Task) -> list[Item]:
    """Return the examples on a command line: each word a sentence; for pairs, two by two."""
    shape = _Shape(task)
    if task.pair and len(words) % 2:
        raise UserError(
            f"found {len(words)} sentence{'s' * (len(words) > 1)} on the command line; task "
            f"'{task.name}' has pairs, two sentences one after the other: did quotes go missing?"
        )
    step = 1 + task.pair
    return [
        shape.item(f"example {n // step + 1}", None, *words[n : n + step])
        for n in range(0, len(words), step)
    ]


def from_bytes(content: bytes, name: str, form: str, task: Task) -> list[Item]:
    """Return the examples of a file's `content` in the format `form` (one of `FORMATS`).

    Raises `UserError` naming `name` and the line for what is not an example of `task`, and for
    an input without examples. Ids are those of the input; they may repeat and may be missing.
    """
    items = list(_READERS[form](_text(content, name), name, _Shape(task)))
    if not items:
        raise UserError(f"{name}: found no sentences ({form}); expected one example or more")
    return items


def guess_format(path: Path) -> str:
    """Return the format that a file's ending stands for; none does: `UserError`."""
    endings = {"txt": "text", "text": "text", "csv": "csv", "tsv": "tsv", "jsonl": "jsonl"}
    ending = path.suffix.lower().removeprefix(".")
    if ending not in endings:
        raise UserError(
            f"{path}: cannot tell its format by the ending '{path.suffix}'; "
            f"say --format {' or '.join(FORMATS)}"
        )
    return endings[ending]


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{name}, line {line}: found byte 0x{content[error.start]:02x}, expected UTF-8; is the "
            "file Latin-1? Convert it: iconv -f latin1 -t utf-8"
        ) from None


def _lines(text: str) -> list[str]:
    # At line feeds alone: sentences may hold U+2028 and others that splitlines() obeys.
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def _read_text(text: str, name: str, shape: _Shape) -> Iterator[Item]:
    for number, line in enumerate(_lines(text), start=1):
        where = f"{name}, line {number}"
        found = line.split("\t")
        if len(found) != 1 + shape.task.pair:
            raise UserError(
                f"{where}: found {len(found)} field{'s' * (len(found) > 1)} apart by tabs, "
                f"expected {shape.wish}"
            )
        yield shape.item(where, None, *found)


def _read_csv(text: str, name: str, shape: _Shape) -> Iterator[Item]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    yield from _read_table(_records(reader, name), name, shape)


def _read_tsv(text: str, name: str, shape: _Shape) -> Iterator[Item]:
    # Line by line: read as a whole, a stray quote would swallow the rows after it.
    def records() -> Iterator[tuple[int, list[str]]]:
        for number, line in enumerate(_lines(text), start=1):
            reader = csv.reader([line], delimiter="\t", strict=True)
            yield number, next((row for _, row in _records(reader, name, number)), [])

    yield from _read_table(records(), name, shape)


def _records(reader: Any, name: str, line: int | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, fields); a record over several lines counts at its first."""
    while True:
        number = line or reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UserError(
                f"{name}, line {number}: found malformed quotes ({error}); a field that begins "
                "with a double quote ends with one, and has those inside it doubled"
            ) from None
        if row is None:
            return
        yield number, row


def _read_table(
    records: Iterable[tuple[int, list[str]]], name: str, shape: _Shape
) -> Iterator[Item]:
    rows = iter(records)
    _, header = next(rows, (1, []))
    if not header:
        return
    header = [column.strip() for column in header]
    columns = [header.index(column) for column in _names(header, f"{name}, line 1", shape)]
    identity = header.index("id") if "id" in header else None
    for number, row in rows:
        where = f"{name}, line {number}"
        if len(row) != len(header):
            raise UserError(
                f"{where}: found {len(row)} field{'s' * (len(row) != 1)}, expected "
                f"{len(header)} as in the header"
            )
        yield shape.item(
            where, None if identity is None else row[identity], *(row[at] for at in columns)
        )


def _names(found: Sequence[str], where: str, shape: _Shape) -> tuple[str, ...]:
    """Return which of the names `found` hold the sentences."""
    if shape.task.pair:
        missing = [name for name in PAIR if name not in found]
    else:
        one = [name for name in ONE_SENTENCE if name in found]
        missing = [] if one else [" or ".join(ONE_SENTENCE)]
    if missing:
        tabs = any("\t" in name for name in found)
        raise UserError(
            f"{where}: no {missing[0]}; found {', '.join(found) or 'nothing'}, expected "
            f"{shape.wish}{'. There are tabs in it: say --format tsv' if tabs else ''}"
        )
    if shape.task.pair:
        return PAIR
    if "sentence2" in found:
        raise UserError(f"{where}: found sentence1 and sentence2, expected {shape.wish}")
    return (one[0],)


def _read_jsonl(text: str, name: str, shape: _Shape) -> Iterator[Item]:
    for number, line in enumerate(_lines(text), start=1):
        where = f"{name}, line {number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise UserError(f"{where}: found no JSON ({error}), expected one object") from None
        if not isinstance(value, dict):
            raise UserError(f"{where}: found {line[:40]}, expected a JSON object")
        # `null` says the same as no key at all, so that one form of object does for every task.
        given = {key: inner for key, inner in value.items() if inner is not None}
        sentences = [given[key] for key in _names(list(given), where, shape)]
        for sentence in sentences:
            if not isinstance(sentence, str):
                raise UserError(f"{where}: found {json.dumps(sentence)}, expected a string")
        identity = given.get("id")
        if isinstance(identity, bool) or not isinstance(identity, str | int | None):
            raise UserError(
                f"{where}: found id {json.dumps(identity)}, expected a string or a whole number"
            )
        yield shape.item(where, identity, *sentences)


_READERS: dict[str, Callable[[str, str, _Shape], Iterator[Item]]] = {
    "text": _read_text,
    "csv": _read_csv,
    "tsv": _read_tsv,
    "jsonl": _read_jsonl,
}
