"""A task's data set, built-in or a user's own: files read into the example table, and a report."""

import csv
import hashlib
import io
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import floor
from pathlib import Path
from typing import Any, NamedTuple

from minbert.base.errors import UserError, printable
from minbert.base.files import write_json, write_text
from minbert.data.examples import Example, label_of, seen, write_examples
from minbert.data.identity import check_unchanged
from minbert.data.lmrd import read_reviews
from minbert.data.tables import BadRow, Fields, read_rows, text_fault
from minbert.spec.protocol import SPLITS
from minbert.spec.task import TASKS, Task
from minbert.store.job import Job

MAX_REJECTED = 0.01
"""The largest share of a split's rows that may be malformed; beyond it, the file is wrong."""


class Rejected(NamedTuple):
    """A rejected row: its split, file and line (from 1), the reason, and its raw text."""

    split: str
    file: str
    line: int
    reason: str
    text: str


def make(job: Job) -> None:
    """Make the data set of the job's task from its files."""
    paths = {name: job.need(name) for name in job.described["needs"]}
    paths |= {name: Path(path) for name, path in job.extra["paths"].items()}
    for name, path in paths.items():
        check_unchanged(path, job.spec["files"][name])
    report = write_dataset(job.spec, *read_dataset(job.spec, paths), job.out)
    for name in ("rows", "rejected", "overlaps", "warnings"):
        print(f"{report['task']}: {name} {report[name]}", file=sys.stderr)


def read_dataset(
    spec: Mapping[str, Any], paths: Mapping[str, Path]
) -> tuple[list[Example], list[Rejected]]:
    """Read the files of a task: {split: path}, or {"archive": path} of LMRD.

    `spec` has the `task` and what decides how its files are read (`TaskEntry.reading`), with the
    `forms` of the files by split. Labels are names or numbers (`label_of`); a test file need not
    have any. A row that cannot be read, or with an invalid or repeated example, is rejected.
    """
    examples, rejected = dict[str, Example](), list[Rejected]()
    for split, file, line, text, row in _rows(spec, paths):
        try:
            if isinstance(row, str):
                raise BadRow(row)
            if str(row.get(spec["columns"]["label"])).removesuffix(".0") in spec["ignore"]:
                continue
            example = _example(row, split, line, spec)
            if example.id in examples:
                raise BadRow(f"a row above has the id '{example.id[:80]}', too")
            examples[example.id] = example
        except BadRow as error:
            rejected.append(Rejected(split, file, line, str(error), text[:1000]))
    return [*examples.values()], rejected


def _rows(
    spec: Mapping[str, Any], paths: Mapping[str, Path]
) -> Iterator[tuple[str, str, int, str, Fields | str]]:
    """Yield split, file, line, text and fields (or what is wrong) of all rows."""
    if "archive" in paths:
        yield from read_reviews(paths["archive"])
    for split in (split for split in SPLITS if split in paths):
        columns = [of for name, of in spec["columns"].items() if (split, name) != ("test", "label")]
        for row in read_rows(paths[split], spec["forms"][split], columns):
            yield split, paths[split].name, *row


def _example(row: Fields, split: str, line: int, spec: Mapping[str, Any]) -> Example:
    """Return the example of a row; `BadRow` if it is none."""
    columns = spec["columns"]
    known = str(row.get(columns.get("id"), f"{split}-{line}"))
    texts = {columns[name]: row[columns[name]] for name in columns if name[:-1] == "sentence"}
    for name, text in {**texts, "id": known}.items():
        if wrong := text_fault(text, spec["controls"]):
            raise BadRow(f"{name} {wrong}")
    label = label_of(row.get(columns["label"]), TASKS[spec["task"]])
    if label is None and split != "test":
        raise BadRow(f"a {split} row without a label")
    first, second = (*texts.values(), None)[:2]
    if split == "train":
        split = derived_split(seen(first, second), spec["made"])
    return Example(known, split, first, second, label)


def derived_split(text: Sequence[str], shares: Mapping[str, float]) -> str:
    """Return the split of a row of train, of which others are given shares."""
    # By its hash, so that rows with one text stay together, and in place when rows are added.
    at = int.from_bytes(hashlib.sha256("\0".join(text).encode()).digest()[:8]) / 2**64
    for split, share in shares.items():
        if at < share:
            return split
        at -= share
    return "train"


def write_dataset(
    spec: Mapping[str, Any], examples: Sequence[Example], rejected: Sequence[Rejected], out: Path
) -> dict[str, Any]:
    """Write `examples.parquet`, `rejected.csv` and `report.json` to `out`; return the last.

    With a `limit` in the `spec` only that many examples of each split are kept, evenly spaced: the
    reviews of LMRD stand in the order of their classes. Refuses files with too many rejected rows,
    and data from which nothing can be learned.
    """
    of = {split: [e for e in examples if e.split == split] for split in SPLITS}
    for split, found in of.items():
        bad = [row for row in rejected if row.split == split]
        if len(bad) > MAX_REJECTED * (rows := len(bad) + len(found)):
            way = "; if test labels are not public, leave their column out" * (split == "test")
            raise UserError(
                f"task '{spec['task']}': {len(bad)} of {rows} {split} rows are malformed, more "
                f"than {MAX_REJECTED:.0%}: {bad[0].file}, line {bad[0].line}: {bad[0].reason}{way}"
            )
        kept = min(spec.get("limit", len(found)), len(found))
        of[split] = [found[n * len(found) // kept] for n in range(kept)]
    report = describe(TASKS[spec["task"]], of)
    report["rejected"] = Counter(row.split for row in rejected)
    write_examples([e for split in SPLITS for e in of[split]], out / "examples.parquet")
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([Rejected._fields, *rejected])
    write_text(out / "rejected.csv", printable(table.getvalue()))
    write_json(out / "report.json", report)
    return report


def describe(task: Task, of: Mapping[str, Sequence[Example]]) -> dict[str, Any]:
    """Return what is in a data set, by split, with warnings of what can be learned only in part.

    `labels` counts whole labels, or those from n to n + 1 for regressions. `mean_words` counts
    words in both sentences. In `overlaps`, `dev in train` counts dev rows whose text (`seen`) is
    also in train. Raises `UserError` for data from which nothing can be learned, or on which
    nothing can be told apart.
    """
    rows = {split: len(examples) for split, examples in of.items() if examples}
    texts = {split: [seen(e.sentence1, e.sentence2) for e in of[split]] for split in rows}
    labels = {
        s: Counter("none" if e.label is None else str(floor(e.label)) for e in of[s]) for s in rows
    }
    overlaps = {
        f"{a} in {b}": sum(map(set(texts[b]).__contains__, texts[a]))
        for b, a in combinations(rows, 2)
    }
    for split in ("train", "dev"):
        wrong = ""
        if len({example.label for example in of[split]}) < 2:
            wrong = "expected two different labels or more; is 'label' the right column"
        elif overlaps.get(f"{split} in train") == rows[split]:
            wrong = "and the text of each is in train, too; is it the same file"
        if wrong:
            raise UserError(
                f"task '{task.name}': {split} has {rows.get(split, 0):,} rows, {wrong}? Give a "
                "different file, or a share of train in its place: 'dev: 0.1'"
            )
    words = {s: [len(" ".join(text).split()) for text in found] for s, found in texts.items()}
    absent = [name for n, name in enumerate(task.names) if str(n) not in labels["train"]]
    return {
        "task": task.name,
        "rows": rows,
        "labels": labels,
        "mean_words": {split: round(sum(found) / len(found), 2) for split, found in words.items()},
        "overlaps": overlaps,
        "warnings": [f"train has no row of its class '{name}'" for name in absent],
    }
