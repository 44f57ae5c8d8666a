"""Sentences and pairs to predict, from the command line, a file or standard input.

All of an input is read and checked before the first prediction is made.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from minbert.base.errors import UserError
from minbert.base.progress import counted
from minbert.data.tables import decode, lines_of, rows_of, text_fault
from minbert.spec.task import Task

FORMATS = ("text", "csv", "tsv", "jsonl")
PAIR = ("sentence1", "sentence2")
"""Names of the columns or keys of a pair, if they are not the task's own; or, of a single one,"""
ONE_SENTENCE = ("sentence1", "sentence", "text")
"""any of these."""


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
    `task`, and for an input without examples. Ids are those of the input, if it has any.
    """
    text = decode(content, name)
    items = list(_lines(text, name, task) if form == "text" else _rows(text, name, form, task))
    if not items:
        raise UserError(f"{name}: found no sentences ({form}); expected one example or more")
    return items


def guess_format(path: Path) -> str:
    """Return the format that a file's ending stands for; an unknown ending raises `UserError`."""
    ending = path.suffix.lower().removeprefix(".").replace("txt", "text")
    if ending not in FORMATS:
        raise UserError(
            f"{path}: cannot tell the format from the ending '{path.suffix}'; "
            f"add --format {' or '.join(FORMATS)}"
        )
    return ending


def item(task: Task, where: str, identity: str | int | None, sentences: Sequence[str]) -> Item:
    """Return the checked example at `where`; `UserError` if its text is empty, or no text."""
    if len(sentences) != 1 + task.pair:
        raise UserError(f"{where}: found {counted(len(sentences), 'field')}, {_expected(task)}")
    for text in sentences:
        if wrong := text_fault(text):
            raise UserError(f"{where}: a sentence {wrong}, {_expected(task)}")
    return Item(where, identity, sentences[0], sentences[1] if task.pair else None)


def _expected(task: Task) -> str:
    return f"expected {'two sentences' if task.pair else 'one sentence'} (task '{task.name}')"


def _lines(text: str, name: str, task: Task) -> Iterator[Item]:
    for number, line in lines_of(text):
        yield item(task, f"{name}, line {number}", None, line.split("\t"))


def _rows(text: str, name: str, form: str, task: Task) -> Iterator[Item]:
    every = [(one,) for one in ONE_SENTENCE]
    candidates = [task.sentences, *([PAIR] if task.pair else every)]
    for number, _, fields in rows_of(text, name, form):
        where = f"{name}, line {number}"
        if isinstance(fields, str):
            raise UserError(f"{where}: {fields}")
        # `null` is the same as no key, so that one form of object suits every task.
        given = {key: inner for key, inner in fields.items() if inner is not None}
        names = next((each for each in candidates if given.keys() >= {*each}), None)
        if names is None:
            known = " or ".join(dict.fromkeys(" and ".join(each) for each in candidates))
            raise UserError(
                f"{where}: found {', '.join(given)[:400] or 'nothing'}, expected {known} (task "
                f"'{task.name}'); is --format right?"
            )
        identity = given.get(task.id, given.get("id"))
        if not isinstance(identity, str | int | None):
            found = str(identity)[:40]
            raise UserError(f"{where}: found id {found}, expected a string or a whole number")
        yield item(task, where, identity, [given[key] for key in names])
