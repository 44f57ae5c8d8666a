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
from minbert.data.tables import decode, lines_of, rows_of, text_fault
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
    items = list(_READERS[form](decode(content, name), name, task))
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


def _read_rows(text: str, name: str, task: Task, form: str) -> Iterator[Item]:
    for number, _, fields in rows_of(text, name, form):
        where = f"{name}, line {number}"
        if isinstance(fields, str):
            raise UserError(f"{where}: {fields}")
        # `null` is the same as no key, so that one form of object suits every task.
        given = {key: inner for key, inner in fields.items() if inner is not None}
        names, given_id = _names(list(given), where, task)
        identity = given[given_id] if given_id else None
        if isinstance(identity, bool) or not isinstance(identity, str | int | None):
            raise UserError(
                f"{where}: found id {json.dumps(identity)[:40]}, expected a string or a whole "
                "number"
            )
        if identity and (wrong := text_fault(str(identity))):
            raise UserError(f"{where}: {given_id} {wrong}")
        yield item(task, where, identity, [given[key] for key in names])


def _names(found: Sequence[str], where: str, task: Task) -> tuple[list[str], str]:
    """Return which of the columns or keys `found` hold the sentences, and which the id or "".

    The task's own names count before the common ones.
    """
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
    **{form: partial(_read_rows, form=form) for form in FORMATS[1:]},
}
