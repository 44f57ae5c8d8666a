"""Sentences and pairs to predict, from the command line, a file or standard input.

All of an input is read and checked before the first prediction is made.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.progress import counted
from minbert.data.tables import Fields, decode, lines_of, rows_of, text_fault
from minbert.spec.task import Task

FORMATS = ("text", "csv", "tsv", "jsonl")
NAMES = (("sentence1", "sentence", "text"), ("sentence2",))
"""What columns of the first and the second sentence are called, if not as the task's own."""
STANDARD_INPUT = Path("/dev/stdin")

Item = dict[str, Any]
"""An example: `id` and `sentence2`, if it has them, and `sentence1`."""


def from_words(words: Sequence[str], task: Task) -> list[Item]:
    """Return the examples on a command line: each word is a sentence, or every two are a pair."""
    starts = range(0, len(words), step := 1 + task.pair)
    return [item(task, f"example {n // step + 1}", words[n : n + step]) for n in starts]


def from_file(path: Path, form: str | None, task: Task) -> list[Item]:
    """Return the examples in a file of the format `form` (default: what its ending stands for).

    Blank lines are none. Raises `UserError` naming the line of what is not an example of `task`,
    and for an input without examples. Ids are those of the input, if it has any.
    """
    if not path.exists():
        raise UserError(f"cannot read {path}: there is no such file")
    ending = path.suffix[1:].lower() or "txt"
    form = form or ("text" if ending == "txt" else ending)
    if form not in FORMATS:
        known = ", .".join(("txt", *FORMATS))
        raise UserError(f"{path}: expected a file that ends in .{known}, or --format")
    # A socket, which standard input may be, cannot be opened by its name.
    content = sys.stdin.buffer.read() if path == STANDARD_INPUT else path.read_bytes()
    text, where = decode(content, path), f"{path}, line {{}}".format
    if form == "text":
        items = [item(task, where(n), line.split("\t")) for n, line in lines_of(text)]
    else:
        items = [_named(task, where(n), fields) for n, _, fields in rows_of(text, path, form)]
    if not items:
        raise UserError(f"{path}: found no sentences ({form}); expected one example or more")
    return items


def item(task: Task, where: str, sentences: Sequence[Any], identity: Any = None) -> Item:
    """Return the checked example at `where`; `UserError` if its text is empty, or no text."""
    if len(sentences) != 1 + task.pair:
        expected = f"expected {1 + task.pair} (task '{task.name}')"
        raise UserError(f"{where}: found {counted(len(sentences), 'sentence')}, {expected}")
    for text in sentences:
        if wrong := text_fault(text):
            raise UserError(f"{where}: a sentence {wrong}")
    about = {} if identity is None else {"id": identity}
    return about | dict(zip(("sentence1", "sentence2"), sentences, strict=False))


def _named(task: Task, where: str, fields: Fields | str) -> Item:
    if isinstance(fields, str):
        raise UserError(f"{where}: {fields}")
    # `null` is the same as no key, so that one form of object suits every task.
    given = {
        name: of.strip() if isinstance(of, str) else of
        for name, of in fields.items()
        if of is not None
    }
    sides = [(own, *others) for own, others in zip(task.sentences, NAMES, strict=False)]
    found = [[given[name] for name in names if name in given] for names in sides]
    if not all(found):
        expected = f"expected {' and '.join(map(' or '.join, sides))} (task '{task.name}')"
        raise UserError(f"{where}: found {', '.join(given)[:400]}, {expected}")
    return item(task, where, [of for of, *_ in found], given.get(task.id, given.get("id")))
