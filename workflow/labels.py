"""Labels of test rows, joined by text from the files that publish them: `labels: DIR` reads these.

    python workflow/labels.py ORIGINALS DIR --course COURSE

ORIGINALS holds the files as they were published, up to two folders deep. Of SST: the treebank's
trees/{train,dev,test}.txt, or dictionary.txt with sentiment_labels.txt beside it. Of STS-B:
sts-{train,dev,test}.csv, or GLUE's STS-B/{train,dev}.tsv. Of Quora: quora_duplicate_questions.tsv,
or GLUE's QQP/{train,dev}.tsv. COURSE is the folder of the course's files. DIR gets a file of ids
and labels for each task, such as sst.csv.

Texts are compared without white space, quotes and the treebank's escapes; then without case; then
by their ASCII letters and digits, which survive a wrong encoding. A text with several labels gets
none. Rows of train and dev, whose labels are known, check the files.
"""

import argparse
import csv
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, no_file
from minbert.base.files import whole
from minbert.data.dataset import MAX_REJECTED, read_dataset
from minbert.data.examples import Example, label_of
from minbert.data.tables import BadRow, decode, lines_of
from minbert.spec.task import BUILT_IN, TASKS

SAME = 0.01
"""Two similarities that differ by less are the same: some files have fewer decimals."""
LEAST_AGREEMENT, ENOUGH = 0.95, 100
"""The share of labelled rows, if there are enough, with which the files' labels must agree."""
SST_CUTS = (0.2, 0.4, 0.6, 0.8)
"""Where the treebank's README cuts a sentiment from 0 to 1 into classes; a cut is in the lower."""

_PENN = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
_ESCAPES = {**_PENN, **{name.upper(): plain for name, plain in _PENN.items()}}
_ESCAPES |= {"\\/": "/", "\\*": "*"}
_QUOTES = dict.fromkeys(
    code
    for code in range(0x2100)
    if chr(code) in "\"'`" or unicodedata.category(chr(code)) in ("Pi", "Pf")
)
_TREE = re.compile(r"\(([0-4]) .*\)")
_LEAF = re.compile(r"\([0-4] ([^() ]+)\)")
_SENTIMENT = re.compile(r"([0-9]+)\|([0-9.]+)")

Row = tuple[int, tuple[str, ...], str]
"""The line of a row, its sentences, and what is in the place of its label."""
Labelled = tuple[tuple[str, ...], float]
"""The sentences of a row and its label."""


def exact(text: str) -> str:
    """Return `text` without white space, quotes and the Penn treebank's escapes."""
    text = unicodedata.normalize("NFKC", _unescaped(text)).translate(_QUOTES)
    return "".join(text.split())


def caseless(text: str) -> str:
    """Return what `exact` leaves, without case."""
    return exact(text).casefold()


def letters(text: str) -> str:
    """Return the ASCII letters and digits; so it is the same if others were decoded wrongly."""
    return "".join(c for c in _unescaped(text).lower() if c.isascii() and c.isalnum())


def _unescaped(text: str) -> str:
    for escape, plain in _ESCAPES.items():
        text = text.replace(escape, plain)
    return text


LEVELS: tuple[Callable[[str], str], ...] = (exact, caseless, letters)
"""How texts are compared: what the first does not find, the next one looks for."""


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return the numbers and texts of a file's lines that are not blank."""
    return [*lines_of(decode(path.read_bytes(), path))]


def trees(path: Path) -> Iterator[Row]:
    """Yield the treebank's trees, such as `(3 (2 Good) (3 fun))`: the label is the root's."""
    for number, line in _lines(path):
        root = _TREE.fullmatch(line.strip())
        yield number, (" ".join(_LEAF.findall(line)),), root[1] if root else line


def phrases(path: Path) -> Iterator[Row]:
    """Yield the treebank's phrases; their sentiments are in the file beside it."""
    beside = path.with_name("sentiment_labels.txt")
    if not beside.is_file():
        raise no_file(beside)
    found = (_SENTIMENT.fullmatch(line) for _, line in _lines(beside))
    classes = {of[1]: bisect_left(SST_CUTS, round(float(of[2]), 6)) for of in found if of}
    for number, line in _lines(path):
        words, _, phrase = line.rpartition("|")
        yield number, (words,), str(classes.get(phrase, line))


def columns(path: Path, at: Sequence[int | str]) -> Iterator[Row]:
    """Yield the two sentences and the label in these columns; names are those of a header.

    Quotes are text.
    """
    lines = [(number, line.split("\t")) for number, line in _lines(path)]
    names = lines.pop(0)[1] if lines and isinstance(at[0], str) else []
    if missing := [name for name in at if isinstance(name, str) and name not in names]:
        raise UserError(f"{path}, line 1: no column '{missing[0]}'; found {', '.join(names)[:400]}")
    places = [names.index(place) if isinstance(place, str) else place for place in at]
    for number, fields in lines:
        one, two, label = (fields[p].strip() if p < len(fields) else "" for p in places)
        yield number, (one, two), label


_STS = partial(columns, at=(5, 6, 4))
_GLUE_STS = partial(columns, at=("sentence1", "sentence2", "score"))
_QUORA = partial(columns, at=("question1", "question2", "is_duplicate"))
ORIGINALS: dict[str, dict[str, Callable[[Path], Iterator[Row]]]] = {
    "sst": {"dictionary.txt": phrases, "trees/*.txt": trees},
    "para": {
        "quora_duplicate_questions.tsv": _QUORA,
        "QQP/train.tsv": _QUORA,
        "QQP/dev.tsv": _QUORA,
    },
    "sts": {
        **{f"sts-{split}.csv": _STS for split in ("train", "dev", "test")},
        **{f"STS-B/{split}.tsv": _GLUE_STS for split in ("train", "dev")},
    },
}
"""The files that give a task's labels, and how each is read."""


def originals(task: str, folder: Path) -> list[Labelled]:
    """Return the labelled texts of a task in the original files in `folder`."""
    return [
        row
        for name, read in ORIGINALS[task].items()
        for above in ("", "*/", "*/*/")
        for path in sorted(folder.glob(above + name))
        for row in _labelled(path, task, read)
    ]


def _labelled(path: Path, task: str, read: Callable[[Path], Iterator[Row]]) -> list[Labelled]:
    """Return the rows of a file that have a label: all but a few, or it is the wrong file."""
    found, wrong = list[Labelled](), list[str]()
    for number, texts, label in read(path):
        try:
            if (value := label_of(label, TASKS[task])) is None:
                raise BadRow("a row without a label")
            found.append((texts, value))
        except BadRow as error:
            wrong.append(f"line {number}: {error}")
    if len(wrong) > MAX_REJECTED * (rows := len(found) + len(wrong)):
        raise UserError(
            f"{path}: {len(wrong):,} of {rows:,} rows have no label of task '{task}', more than "
            f"{MAX_REJECTED:.0%}; is it the right file? The first: {wrong[0]}"
        )
    return found


def join(task: str, found: Sequence[Labelled], examples: Sequence[Example]) -> dict[str, float]:
    """Return {id: label} of the test examples, by text.

    Raises `UserError` if less than `LEAST_AGREEMENT` of the labelled examples have the same label
    in the files, or no test example is found.
    """
    same = SAME if TASKS[task].kind == "regression" else 0.5
    levels: list[tuple[Callable[[str], str], dict[tuple[str, ...], list[float]]]] = []
    for level in LEVELS:
        by_text: dict[tuple[str, ...], list[float]] = {}
        for texts, label in found:
            by_text.setdefault(tuple(map(level, texts)), []).append(label)
        levels.append((level, by_text))

    def label_of_text(example: Example) -> float | None:
        texts = [t for t in (example.sentence1, example.sentence2) if t is not None]
        for level, by_text in levels:
            key = tuple(map(level, texts))
            if all(key) and (labels := by_text.get(key)):
                return labels[0] if max(labels) - min(labels) < same else None
        return None

    looked_up = [(example, label_of_text(example)) for example in examples]
    known = [(e, label) for e, label in looked_up if None not in (e.label, label)]
    other = [(e, label) for e, label in known if abs((e.label or 0) - (label or 0)) >= same]
    if len(known) >= ENOUGH and len(other) > (1 - LEAST_AGREEMENT) * len(known):
        example, another = other[0]
        raise UserError(
            f"labels of task '{task}': {len(other):,} of {len(known):,} rows of train and dev have "
            f"another label in the files; the first: id '{example.id}' has {example.label} in the "
            f"data, {another} there. Are the labels of another kind?"
        )
    test = [(e, label) for e, label in looked_up if e.split == "test"]
    joined = {e.id: label for e, label in test if label is not None}
    if test and not joined:
        raise UserError(
            f"labels of task '{task}': none of {len(test):,} test rows is in the files; are these "
            "the original files of this data?"
        )
    agree = len(known) - len(other)
    print(
        f"{task}: {len(joined):,} of {len(test):,} test rows; of {len(known):,} labelled rows in "
        f"the files {agree:,} agree"
    )
    return joined


def write(folder: Path, out: Path, course: Path) -> None:
    """Write a file of labels for each task whose originals are in `folder`."""
    any_found = False
    for task in ORIGINALS:
        if found := originals(task, folder):
            any_found = True
            labels = join(task, found, examples_of(task, course))
            with (
                whole(out / f"{task}.csv") as temporary,
                temporary.open("w", encoding="utf-8", newline="") as handle,
            ):
                csv.writer(handle).writerows([("id", "label"), *labels.items()])
    if not any_found:
        names = [name for readers in ORIGINALS.values() for name in readers]
        raise UserError(f"{folder} has none of the original files: {', '.join(names)}")


def examples_of(task: str, course: Path) -> list[Example]:
    """Return the examples of a built-in task in the folder of the course's files."""
    files = BUILT_IN[task].files
    paths = {split: course / str(file.path) for split, file in files.items()}
    for path in paths.values():
        if not path.is_file():
            raise no_file(path)
    forms: Mapping[str, Any] = dict.fromkeys(paths, BUILT_IN[task].format)
    return read_dataset({"task": task, "forms": forms, **BUILT_IN[task].reading}, paths)[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="ORIGINALS")
    parser.add_argument("out", type=Path, metavar="DIR")
    parser.add_argument("--course", type=Path, required=True)
    try:
        write(**vars(parser.parse_args()))
    except UserError as error:
        raise SystemExit(f"labels: {error}") from None
