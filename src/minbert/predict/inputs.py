"""Sentences and pairs to predict, from the command line, a file or standard input.

All of an input is read and checked before the first prediction is made.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from minbert.base.errors import UserError
from minbert.base.progress import counted
from minbert.data.examples import text_fault
from minbert.data.tables import (
    csv_records,
    decode,
    json_lines,
    lines_of,
    tsv_records,
    unicode_fault,
)
from minbert.spec.task import Task

FORMATS = ("text", "csv", "tsv", "jsonl")
ONE_SENTENCE = ("sentence1", "sentence", "text")
"""Names of the column or key of a single sentence; the first one present counts."""
PAIR = ("sentence1", "sentence2")


class Item(NamedTuple):
    """One example: its place in the input (for errors), its id or None, its sentences."""

    where: str
    id: str | int | None
    sentence1: str
    sentence2: str | None


def from_words(words: Sequence[str], task: Task) -> list[Item]:
    """Return the examples on a command line: each word is a sentence, or every two are a pair."""
    step = 1 + task.pair
    if len(words) % step:
        raise UserError(
            f"found {counted(len(words), 'sentence')} on the command line, but task "
            f"'{task.name}' has pairs: give two sentences each. Are quotes missing?"
        )
    return [
        item(task, f"example {n // step + 1}", None, words[n : n + step])
        for n in range(0, len(words), step)
    ]


def from_bytes(content: bytes, name: str, form: str, task: Task) -> list[Item]:
    """Return the examples of a file's `content` in the format `form` (one of `FORMATS`).

    Blank lines are none. Raises `UserError` naming `name` and the line of what is not an example of
    `task`, and for an input without examples. Ids are those of the input; they may repeat or be
    missing.
    """
    text = decode(content, name).replace("\r\r\n", "\n")
    items = list(_READERS[form](text, name, task))
    if not items:
        raise UserError(f"{name}: found no sentences ({form}); expected one example or more")
    return items


def guess_format(path: Path) -> str:
    """Return the format that a file's ending stands for; an unknown ending raises `UserError`."""
    endings = dict(zip(FORMATS, FORMATS, strict=True)) | {"txt": "text"}
    ending = path.suffix.lower().removeprefix(".")
    if ending not in endings:
        raise UserError(
            f"{path}: cannot tell the format from the ending '{path.suffix}'; "
            f"add --format {' or '.join(FORMATS)}"
        )
    return endings[ending]


def item(task: Task, where: str, identity: str | int | None, sentences: Sequence[str]) -> Item:
    """Return the checked example at `where`; `UserError` if its text is empty, or no text."""
    for text in sentences:
        if wrong := text_fault(text):
            raise UserError(f"{where}: a sentence {wrong}, expected {_expected(task)}")
    for text in (*sentences, str(identity)):
        if wrong := unicode_fault(text):
            raise UserError(f"{where}: found {wrong}")
    return Item(where, identity, sentences[0], sentences[1] if task.pair else None)


def _expected(task: Task) -> str:
    number, noun = ("two", "sentences") if task.pair else ("one", "sentence")
    return f"{number} {noun} (task '{task.name}' has {number})"


def _read_text(text: str, name: str, task: Task) -> Iterator[Item]:
    for number, line in lines_of(text):
        where = f"{name}, line {number}"
        found = line.split("\t")
        if len(found) != 1 + task.pair:
            raise UserError(
                f"{where}: found {counted(len(found), 'field')} separated by tabs, "
                f"expected {_expected(task)}"
            )
        yield item(task, where, None, found)


def _read_table(text: str, name: str, task: Task, form: str) -> Iterator[Item]:
    rows = _records(text, name, form)
    first, header = next(rows, (1, []))
    if not header:
        return
    header = [column.strip() for column in header]
    names, given_id = _names(header, f"{name}, line {first}", task)
    columns = [header.index(column) for column in names]
    identity = header.index(given_id) if given_id else None
    for number, row in rows:
        where = f"{name}, line {number}"
        if len(row) != len(header):
            raise UserError(
                f"{where}: found {counted(len(row), 'field')}, expected "
                f"{len(header)} as in the header"
            )
        given = None if identity is None else row[identity]
        yield item(task, where, given, [row[at] for at in columns])


def _records(text: str, name: str, form: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, fields)."""
    if form == "csv":
        yield from csv_records(text, name)
        return
    for number, _, fields in tsv_records(text):
        if isinstance(fields, str):
            raise UserError(f"{name}, line {number}: {fields}")
        yield number, fields


def _read_jsonl(text: str, name: str, task: Task) -> Iterator[Item]:
    for number, line in json_lines(text, name):
        where = f"{name}, line {number}"
        try:
            value = json.loads(line, object_pairs_hook=partial(_once, where, task))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: not JSON ({error}); expected one object") from None
        if not isinstance(value, dict):
            raise UserError(f"{where}: found {line[:40]}, expected a JSON object")
        # `null` is the same as no key, so that one form of object suits every task.
        given = {key: inner for key, inner in value.items() if inner is not None}
        names, given_id = _names(list(given), where, task)
        sentences = [given[key] for key in names]
        for sentence in sentences:
            if not isinstance(sentence, str):
                raise UserError(f"{where}: found {json.dumps(sentence)[:40]}, expected a string")
        identity = given.get(given_id)
        if isinstance(identity, bool) or not isinstance(identity, str | int | None):
            raise UserError(
                f"{where}: found id {json.dumps(identity)[:40]}, expected a string or a whole "
                "number"
            )
        yield item(task, where, identity, sentences)


def _once(where: str, task: Task, pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    _refuse_twice([key for key, _ in pairs], where, task)
    return dict(pairs)


def _refuse_twice(found: Sequence[str], where: str, task: Task) -> None:
    for name in dict.fromkeys(("id", task.id, *task.sentences, *ONE_SENTENCE, *PAIR)):
        if found.count(name) > 1:
            raise UserError(f"{where}: found '{name}' {found.count(name)} times, expected it once")


def _names(found: Sequence[str], where: str, task: Task) -> tuple[list[str], str]:
    """Return which of the columns or keys `found` hold the sentences, and which the id or "".

    The task's own names count before the common ones.
    """
    _refuse_twice(found, where, task)
    own = list(task.sentences)
    identity = next((name for name in (task.id, "id") if name and name in found), "")
    if own and all(name in found for name in own):
        return own, identity
    if task.pair:
        names = [name for name in PAIR if name in found]
        missing = [name for name in PAIR if name not in found]
    else:
        names = [name for name in ONE_SENTENCE if name in found][:1]
        missing = [] if names else [" or ".join(dict.fromkeys((*ONE_SENTENCE, *own)))]
    if missing:
        tabs = any("\t" in name for name in found)
        theirs = f" (the task's own: {', '.join(own)})" if task.pair and own != [*PAIR] else ""
        raise UserError(
            f"{where}: no {missing[0]}{theirs}; found {', '.join(found)[:400] or 'nothing'}, "
            f"expected {_expected(task)}{'. It contains tabs: add --format tsv' if tabs else ''}"
        )
    if not task.pair and "sentence2" in found:
        raise UserError(f"{where}: found sentence1 and sentence2, expected {_expected(task)}")
    return names, identity


_READERS: dict[str, Callable[[str, str, Task], Iterator[Item]]] = {
    "text": _read_text,
    "csv": partial(_read_table, form="csv"),
    "tsv": partial(_read_table, form="tsv"),
    "jsonl": _read_jsonl,
}
