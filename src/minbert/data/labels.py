"""Public labels of test rows, joined from a task's original files by normalised text.

Scores alone read them (`evaluate.score`): no data set, training or choice does.
"""

import csv
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from minbert.base.errors import UserError
from minbert.base.files import whole, write_json
from minbert.data.examples import read_examples
from minbert.data.identity import check_unchanged, checksum
from minbert.data.originals import Original, read_originals
from minbert.data.parquet import read_file
from minbert.spec.task import TASKS, Task
from minbert.store.job import Job

SCHEMA = pa.schema([("id", pa.string()), ("label", pa.float64())])

SAME = 0.01
"""Two similarities that differ by less are the same: some files have fewer decimals."""

LEAST_AGREEMENT, ENOUGH = 0.95, 100
"""The share of labelled rows, if there are enough, with which the files' labels must agree."""

_PENN = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
_ESCAPES = {
    **_PENN,
    **{escape.upper(): plain for escape, plain in _PENN.items()},
    **{"\\/": "/", "\\*": "*"},
}
_QUOTES = dict.fromkeys(
    code
    for code in range(0x2100)
    if chr(code) in "\"'`" or unicodedata.category(chr(code)) in ("Pi", "Pf")
)

Text = tuple[str, str | None]
"""A sentence or a pair."""
Key = tuple[str, ...]


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


class Found(NamedTuple):
    """What the originals say of a row: its label, or the labels that contradict each other.

    `level` is the name of the comparison that found it. Neither is there if nothing was found.
    """

    label: float | None = None
    conflict: tuple[float, ...] = ()
    level: str = ""


class Labels:
    """The labels that a task's originals give to `texts`; of others none are known."""

    def __init__(self, task: Task, originals: Sequence[Original], texts: Iterable[Text]) -> None:
        self.task = task
        self._found: list[tuple[Callable[[str], str], dict[Key, list[float]]]] = []
        texts = list(texts)
        for level in LEVELS:
            by_text: dict[Key, list[float]] = {_key(level, text): [] for text in texts}
            for one in originals:
                if (labels := by_text.get(_key(level, one[:2]))) is not None:
                    labels.append(one.label)
            self._found.append((level, by_text))

    def of(self, text: Text) -> Found:
        """Return what is known of a text; a comparison that leaves nothing of it is left out."""
        for level, by_text in self._found:
            key = _key(level, text)
            if all(key) and (labels := by_text.get(key)):
                if self.agree(min(labels), max(labels)):
                    return Found(labels[0], level=level.__name__)
                return Found(conflict=tuple(sorted(set(labels))), level=level.__name__)
        return Found()

    def agree(self, one: float, other: float) -> bool:
        """Whether two labels of a text are the same."""
        return abs(one - other) < (SAME if self.task.kind == "regression" else 0.5)


def make(job: Job) -> None:
    """Join the labels of the job's task."""
    paths = {name: Path(path) for name, path in job.extra["paths"].items()}
    for name, path in paths.items():
        planned = job.spec["files"][name]
        check_unchanged(path, checksum(path, planned), planned)
    examples = read_examples(job.need("examples")).to_pylist()
    report = join(job.spec["task"], examples, paths, job.out)
    print(in_words(report), file=sys.stderr)


def join(
    task: str, examples: Sequence[Mapping[str, Any]], files: Mapping[str, Path], out: Path
) -> dict[str, Any]:
    """Write `labels.parquet`, `unjoined.csv` and `joined.json` to `out`; return the last.

    Labels are given to test rows that have none. A row whose text has several labels in `files`
    gets none. Rows of train and dev, whose labels are known, are looked up to check the files:
    `UserError` if fewer than `LEAST_AGREEMENT` agree, or if no test row is found.
    """
    read = read_originals(task, files)
    labels = Labels(TASKS[task], read.originals, map(_text, examples))
    wanted = [row for row in examples if row["split"] == "test" and row["label"] is None]
    found = [labels.of(_text(row)) for row in wanted]
    report: dict[str, Any] = {
        "task": task,
        "files": sorted(files),
        "originals": {"rows": read.rows, "malformed": len(read.malformed)},
        "test": {
            "rows": len(wanted),
            "joined": sum(one.label is not None for one in found),
            "conflicting": sum(bool(one.conflict) for one in found),
            "missing": sum(one == Found() for one in found),
            "by": {
                level.__name__: sum(
                    one.label is not None and one.level == level.__name__ for one in found
                )
                for level in LEVELS
            },
        },
        "labelled": _checked(labels, [row for row in examples if row["label"] is not None], files),
    }
    if wanted and not report["test"]["joined"]:
        raise UserError(
            f"labels of task '{task}': none of {len(wanted):,} test rows is in "
            f"{', '.join(map(str, files.values()))}; are these the original files of this data?"
        )
    pairs = [(row["id"], one.label) for row, one in zip(wanted, found, strict=True)]
    joined = [pair for pair in pairs if pair[1] is not None]
    columns = [[pair[at] for pair in joined] for at in (0, 1)]
    with whole(out / "labels.parquet") as temporary:
        pq.write_table(pa.table(columns, schema=SCHEMA), temporary, compression="zstd")
    with (
        whole(out / "unjoined.csv") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as handle,
    ):
        writer = csv.writer(handle)
        writer.writerow(["id", "reason", "sentence1", "sentence2"])
        writer.writerows(_unjoined(wanted, found))
    write_json(out / "joined.json", report)
    return report


def in_words(report: Mapping[str, Any]) -> str:
    """Return what a report says of the test rows, in one line."""
    test, known = report["test"], report["labelled"]
    said = f"{TASKS[report['task']].title}: {test['joined']:,} of {test['rows']:,} test rows"
    if test["conflicting"]:
        said += f", {test['conflicting']:,} with conflicting labels"
    if test["missing"]:
        said += f", {test['missing']:,} not in the files"
    if not known["joined"]:
        return f"{said}; no labelled row to check the files by"
    return f"{said}; of {known['joined']:,} labelled rows in the files {known['agree']:,} agree"


def read_labels(path: Path) -> dict[str, float]:
    """Return {id: label} of the labels at `path`."""
    table = read_file(path, SCHEMA.names)
    return dict(zip(*(table[name].to_pylist() for name in SCHEMA.names), strict=True))


def with_labels(table: pa.Table, labels: Mapping[str, float]) -> pa.Table:
    """Return the rows of a table (`id`, `label`) that have a label, or get one from `labels`."""
    given = pa.array([labels.get(name) for name in table["id"].to_pylist()], pa.float64())
    place = table.column_names.index("label")
    filled = pc.coalesce(table["label"].cast(pa.float64()), given)
    return table.set_column(place, "label", filled).filter(pc.is_valid(filled))


def _key(level: Callable[[str], str], text: Text) -> Key:
    return tuple(level(sentence) for sentence in text if sentence is not None)


def _text(row: Mapping[str, Any]) -> Text:
    return row["sentence1"], row["sentence2"]


def _checked(
    labels: Labels, rows: Sequence[Mapping[str, Any]], files: Mapping[str, Path]
) -> dict[str, int]:
    """Look up rows whose labels are known; return how many were found, and how many agree."""
    pairs = [(row, labels.of(_text(row)).label) for row in rows]
    known = [(row, label) for row, label in pairs if label is not None]
    other = [(row, label) for row, label in known if not labels.agree(row["label"], label)]
    agree = len(known) - len(other)
    if len(known) >= ENOUGH and agree < LEAST_AGREEMENT * len(known):
        row, label = other[0]
        raise UserError(
            f"labels of task '{labels.task.name}': of {len(known):,} rows of train and dev that "
            f"are in {', '.join(map(str, files.values()))}, {agree:,} have the same label there, "
            f"expected at least {LEAST_AGREEMENT:.0%}; the first other one: id '{row['id']}' has "
            f"{row['label']:g} in the data, {label:g} there. Are the labels of another kind?"
        )
    return {"rows": len(rows), "joined": len(known), "agree": agree}


def _unjoined(
    wanted: Sequence[Mapping[str, Any]], found: Sequence[Found]
) -> Iterator[tuple[str, str, str, str]]:
    for row, one in zip(wanted, found, strict=True):
        if one.label is None:
            many = ", ".join(f"{label:g}" for label in one.conflict)
            reason = f"conflicting labels: {many}" if many else "not in the files"
            yield row["id"], reason, row["sentence1"], row["sentence2"] or ""
