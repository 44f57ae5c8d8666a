"""A data set's folder: the example table, the rows set aside, and a report of what is in it."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from minbert.common.errors import UserError
from minbert.common.files import whole, write_json
from minbert.data.examples import SPLITS, Example, Rejected, known_task, write_examples
from minbert.data.overlap import seen
from minbert.grid.tasks import Task

MAX_REJECTED = 0.01
"""The share of a file's rows that may be malformed; more, and the file is not what it should be."""


def write_dataset(
    task: str, examples: Sequence[Example], rejected: Sequence[Rejected], out_dir: Path
) -> dict[str, Any]:
    """Write `examples.parquet`, `rejected.csv` and `report.json` to `out_dir`; return the report.

    Raises `UserError` listing the first few if more than 1 % of a split's rows were set aside, or
    if an example is not valid.
    """
    known = known_task(task)
    _check_share(task, examples, rejected)
    out_dir.mkdir(parents=True, exist_ok=True)
    write_examples(task, examples, out_dir / "examples.parquet")
    with (
        whole(out_dir / "rejected.csv") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as handle,
    ):
        writer = csv.writer(handle)
        writer.writerow(["file", "line", "reason", "text"])
        writer.writerows((r.file, r.line, r.reason, r.text) for r in rejected)
    report = describe(known, examples, rejected)
    write_json(out_dir / "report.json", report)
    return report


def describe(
    task: Task, examples: Sequence[Example], rejected: Sequence[Rejected]
) -> dict[str, Any]:
    """Return what is in a data set, by split.

    `rows`, `rejected`: counts. `labels`: rows by class, or by whole part for a regression (`4-5`
    holds 5 too; `none`: not public). `mean_words`: white-space words in an example, both
    sentences. `duplicates`: rows whose text an earlier row of the split has. `overlaps`:
    `dev in train` is the number of dev rows whose text stands in train. Texts are compared as an
    uncased model sees them: without case and white space, and pairs in either order.
    """
    rows = {split: [e for e in examples if e.split == split] for split in SPLITS}
    present = {split: found for split, found in rows.items() if found}
    texts = {s: [seen(e.sentence1, e.sentence2) for e in found] for s, found in present.items()}
    distinct = {split: set(found) for split, found in texts.items()}
    return {
        "task": task.name,
        "rows": {split: len(found) for split, found in present.items()},
        "rejected": dict(sorted(Counter(r.split for r in rejected).items())),
        "labels": {
            split: dict(sorted(Counter(_bin(e.label, task) for e in found).items()))
            for split, found in present.items()
        },
        "mean_words": {
            split: round(sum(_words(e) for e in found) / len(found), 2)
            for split, found in present.items()
        },
        "duplicates": {s: len(texts[s]) - len(distinct[s]) for s in present},
        "overlaps": {
            f"{a} in {b}": sum(text in distinct[b] for text in texts[a])
            for b, a in permutations(present, 2)
            if SPLITS.index(b) < SPLITS.index(a)
        },
    }


def _check_share(task: str, examples: Sequence[Example], rejected: Sequence[Rejected]) -> None:
    rows = Counter(e.split for e in examples) + Counter(r.split for r in rejected)
    for split in SPLITS:
        found = [r for r in rejected if r.split == split]
        if len(found) > MAX_REJECTED * rows[split]:
            listed = "\n".join(f"  {r.file}, line {r.line}: {r.reason}" for r in found[:5])
            raise UserError(
                f"task '{task}': {len(found)} of {rows[split]} {split} rows are malformed, more "
                f"than {MAX_REJECTED:.0%}; is it the right file? The first of them:\n{listed}"
            )


def _words(example: Example) -> int:
    return len(example.sentence1.split()) + len((example.sentence2 or "").split())


def _bin(label: float | None, task: Task) -> str:
    if label is None:
        return "none"
    if task.kind != "regression":
        return str(int(label))
    low = min(int(label), int(task.high) - 1)
    return f"{low}-{low + 1}"
