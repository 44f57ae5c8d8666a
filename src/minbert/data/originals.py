"""The original files that give public labels of test rows: SST's treebank, STS-B, Quora.

Nothing that trains reads this module, so that no key of a training depends on these files.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from minbert.base.errors import UserError, nearest, no_file
from minbert.base.files import content_of
from minbert.data.examples import Example, decode, fault, number_in, split_lines
from minbert.spec.task import TASKS

MAX_MALFORMED = 0.01
"""The largest share of a file's rows that may be malformed; beyond it, the file is wrong."""

SST_CUTS = (0.2, 0.4, 0.6, 0.8)
"""Where the treebank's README cuts a sentiment from 0 to 1 into classes; a cut is in the lower."""

_DICTIONARY, _SENTIMENTS = "dictionary.txt", "sentiment_labels.txt"
_TREE = re.compile(r"\(([0-4]) .*\)")
_LEAF = re.compile(r"\([0-4] ([^() ]+)\)")


class Original(NamedTuple):
    """A labelled text of an original file; `sentence2` is None for single sentences."""

    sentence1: str
    sentence2: str | None
    label: float


class Read(NamedTuple):
    """What the original files of a task hold: `rows` are all, `malformed` those left out."""

    originals: list[Original]
    rows: int
    malformed: list[str]


Rows = Iterator[tuple[int, Original | str]]
"""The rows of a file by line: what a row says, or what is wrong with it."""


def label_files(folder: Path) -> dict[str, dict[str, Path]]:
    """Return {task: {name under `folder`: path}} of the original files in `folder`.

    They may lie up to two folders below it. `UserError` if none is there, or half of a pair.
    """
    if not folder.is_dir():
        wrong = "it is no folder" if folder.exists() else "there is no such folder"
        raise UserError(f"labels is '{folder}', and {wrong}; expected one with {_expected()}")
    found: dict[str, dict[str, Path]] = {}
    for task, readers in READERS.items():
        for name in readers:
            for path in (p for above in ("", "*/", "*/*/") for p in folder.glob(above + name)):
                if wrong_file := no_file(path):
                    raise UserError(f"{path}: {wrong_file}; put the file itself there")
                if path.is_file():
                    found.setdefault(task, {})[str(path.relative_to(folder))] = path
    if not found:
        names = [path.name for path in folder.iterdir()]
        known = [name.rpartition("/")[2] for readers in READERS.values() for name in readers]
        near = next((near for name in names if (near := nearest(name, known))), "")
        raise UserError(
            f"labels: {folder} has no file of public labels; expected {_expected()}.{near}"
        )
    for name, path in list(found.get("sst", {}).items()):
        if path.name == _DICTIONARY:
            beside = path.with_name(_SENTIMENTS)
            if not beside.is_file():
                raise UserError(f"{path}: {beside.name} is not beside it, expected both")
            found["sst"][str(Path(name).with_name(_SENTIMENTS))] = beside
    return {task: dict(sorted(files.items())) for task, files in found.items()}


def read_originals(task: str, files: Mapping[str, Path]) -> Read:
    """Read the original files {name: path} of `task`.

    A malformed row is left out; `UserError` if more than 1 % of a file's are, or a column is
    missing.
    """
    originals: list[Original] = []
    malformed: list[str] = []
    rows = 0
    for name, path in files.items():
        if path.name == _SENTIMENTS:  # read with the phrases that it is of
            continue
        found = list(_reader(task, name)(path))
        wrong = []
        for line, row in found:
            reason = row if isinstance(row, str) else _fault(row, task)
            if reason:
                wrong.append(f"{name}, line {line}: {reason}")
            elif isinstance(row, Original):
                originals.append(row)
        if len(wrong) > MAX_MALFORMED * len(found) or not found:
            listed = "\n".join(f"  {each}" for each in wrong[:5])
            raise UserError(
                f"{path}: {len(wrong)} of {len(found)} rows are malformed, more than "
                f"{MAX_MALFORMED:.0%}; is it the right file? The first of them:\n{listed}"
                if found
                else f"{path}: has no rows; expected labelled texts of task '{task}'"
            )
        rows += len(found)
        malformed += wrong
    return Read(originals, rows, malformed)


def _lines(path: Path) -> list[str]:
    try:
        return split_lines(decode(content_of(path), path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def _fault(row: Original, task: str) -> str | None:
    return fault(Example("row", "test", *row), TASKS[task])


def _pair(fields: Sequence[str], at: Sequence[int]) -> Original | str:
    """Return the row whose two sentences and label are at these places."""
    if len(fields) <= max(at):
        return f"{len(fields)} columns, expected at least {max(at) + 1}"
    one, two, label = (fields[place].strip() for place in at)
    if (number := number_in(label)) is None:
        return f"label '{label[:80]}' is not a number"
    return Original(one, two, number)


def _sts(path: Path) -> Rows:
    """Read STS-B's own form: genre, file, year, id, score and two sentences, without a header."""
    for line, text in enumerate(_lines(path), start=1):
        yield line, _pair(text.split("\t"), (5, 6, 4))


def _headed(*columns: str) -> Callable[[Path], Rows]:
    """Return a reader of tab-separated pairs with a header: two sentences and the label.

    Quotes are text, as GLUE reads them.
    """

    def read(path: Path) -> Rows:
        lines = _lines(path)
        header = lines[0].split("\t") if lines else []
        if missing := [name for name in columns if name not in header]:
            raise UserError(
                f"{path}, line 1: no column '{missing[0]}'; found {', '.join(header)[:400]}; "
                f"expected tabs between the columns, among them {', '.join(columns)}"
            )
        at = [header.index(name) for name in columns]
        for line, text in enumerate(lines[1:], start=2):
            fields = text.split("\t")
            if len(fields) == len(header):
                yield line, _pair(fields, at)
            else:
                yield line, f"{len(fields)} columns, but the header has {len(header)}"

    return read


def _trees(path: Path) -> Rows:
    """Read the treebank's trees, such as `(3 (2 Good) (3 fun))`: the label is the root's."""
    for line, text in enumerate(_lines(path), start=1):
        root = _TREE.fullmatch(text.strip())
        words = _LEAF.findall(text)
        if root and words:
            yield line, Original(" ".join(words), None, float(root[1]))
        elif text.strip():
            yield line, f"'{text[:80]}' is no tree such as (3 (2 Good) (3 fun))"


def _phrases(path: Path) -> Rows:
    """Read the treebank's phrases; their sentiments are in the file beside it."""
    beside = path.with_name(_SENTIMENTS)
    classes: dict[str, float] = {}
    for line, text in enumerate(_lines(beside)[1:], start=2):
        phrase, _, sentiment = text.partition("|")
        number = number_in(sentiment)
        if number is None or not 0 <= number <= 1:
            raise UserError(
                f"{beside}, line {line}: found '{text[:80]}', expected the number of a phrase, "
                "'|' and its sentiment from 0 to 1"
            )
        classes[phrase] = float(bisect_left(SST_CUTS, round(number, 6)))
    for line, text in enumerate(_lines(path), start=1):
        words, _, number_of = text.rpartition("|")
        if number_of in classes:
            yield line, Original(words, None, classes[number_of])
        else:
            yield line, f"'{text[:80]}' does not end in '|' and a number of {beside.name}"


_GLUE_STS = _headed("sentence1", "sentence2", "score")
_QUORA = _headed("question1", "question2", "is_duplicate")
READERS: dict[str, dict[str, Callable[[Path], Rows]]] = {
    "sst": {
        _DICTIONARY: _phrases,
        **{f"trees/{split}.txt": _trees for split in ("train", "dev", "test")},
    },
    "para": {
        "quora_duplicate_questions.tsv": _QUORA,
        "QQP/train.tsv": _QUORA,
        "QQP/dev.tsv": _QUORA,
    },
    "sts": {
        **{f"sts-{split}.csv": _sts for split in ("train", "dev", "test")},
        "STS-B/train.tsv": _GLUE_STS,
        "STS-B/dev.tsv": _GLUE_STS,
    },
}
"""The files that give a task's labels, and how each is read."""


def _reader(task: str, name: str) -> Callable[[Path], Rows]:
    return next(read for known, read in READERS[task].items() if f"/{name}".endswith(f"/{known}"))


def _expected() -> str:
    return "; ".join(
        f"{TASKS[task].title}: {', '.join(readers)}" for task, readers in READERS.items()
    )
