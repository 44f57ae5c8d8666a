"""A data set's folder: the example table, the rejected rows, and a report on both."""

import csv
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import whole, write_json
from minbert.data.examples import Example, Rejected, write_examples
from minbert.spec.protocol import SPLITS
from minbert.spec.task import TASKS, Task
from minbert.store.job import Job

MAX_REJECTED = 0.01
"""The largest share of a split's rows that may be malformed; beyond it, the file is wrong."""


def make_dataset(
    job: Job,
    examples: Sequence[Example],
    rejected: Sequence[Rejected],
    made: Collection[str] = (),
) -> None:
    """Write the data set that a job read or generated, and print what is in it.

    `made` are the splits that were made of train's rows.
    """
    task = job.spec["task"]
    report = write_dataset(task, examples, rejected, job.out, made)
    rows = ", ".join(f"{split} {n}" for split, n in report["rows"].items())
    print(f"{task}: {rows} rows, {len(rejected)} set aside", file=sys.stderr)


def write_dataset(
    task: str,
    examples: Sequence[Example],
    rejected: Sequence[Rejected],
    out_dir: Path,
    made: Collection[str] = (),
) -> dict[str, Any]:
    """Write `examples.parquet`, `rejected.csv` and `report.json` to `out_dir`; return the last."""
    check_share(task, examples, rejected, made)
    out_dir.mkdir(parents=True, exist_ok=True)
    write_examples(task, examples, out_dir / "examples.parquet")
    with (
        whole(out_dir / "rejected.csv") as temporary,
        # The name of a file in a folder or an archive may be no UTF-8.
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as handle,
    ):
        writer = csv.writer(handle)
        writer.writerow(["file", "line", "reason", "text"])
        writer.writerows((r.file, r.line, r.reason, r.text) for r in rejected)
    report = _describe(TASKS[task], examples, rejected)
    write_json(out_dir / "report.json", report)
    return report


def seen(sentence1: str, sentence2: str | None) -> tuple[str, ...]:
    """Return an example's text without case, white space or the order of a pair, to compare it."""
    sentences = (s for s in (sentence1, sentence2) if s is not None)
    return tuple(sorted(" ".join(s.lower().split()) for s in sentences))


def overlapping(examples: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return, for dev and test, the ids of the examples whose text (`seen`) is also in train."""
    rows = [(e["split"], e["id"], seen(e["sentence1"], e["sentence2"])) for e in examples]
    train = {text for split, _, text in rows if split == "train"}
    return {
        wanted: {name for split, name, text in rows if split == wanted and text in train}
        for wanted in ("dev", "test")
    }


def _describe(
    task: Task, examples: Sequence[Example], rejected: Sequence[Rejected]
) -> dict[str, Any]:
    """Return what is in a data set, by split.

    `labels` counts whole labels, or those from n to n + 1 for regressions. `mean_words` counts
    words in both sentences. `duplicates` counts rows whose text (`seen`) an earlier row of the
    split has; in `overlaps`, `dev in train` counts dev rows whose text is also in train.
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
            split: round(sum(len(" ".join(text).split()) for text in found) / len(found), 2)
            for split, found in texts.items()
        },
        "duplicates": {s: len(texts[s]) - len(distinct[s]) for s in present},
        "overlaps": {
            f"{a} in {b}": sum(text in distinct[b] for text in texts[a])
            for b, a in combinations(present, 2)
        },
    }


def check_share(
    task: str,
    examples: Sequence[Example],
    rejected: Sequence[Rejected],
    made: Collection[str] = (),
) -> None:
    """Refuse a split of which more than `MAX_REJECTED` of the rows are malformed.

    Rows of the splits that were `made` of train's count as train's.
    """
    rows = Counter("train" if e.split in made else e.split for e in examples)
    rows += Counter(r.split for r in rejected)
    for split in SPLITS:
        found = [r for r in rejected if r.split == split]
        if len(found) > MAX_REJECTED * rows[split]:
            listed = "\n".join(f"  {r.file}, line {r.line}: {r.reason}" for r in found[:5])
            raise UserError(
                f"task '{task}': {len(found)} of {rows[split]} {split} rows are malformed, more "
                f"than {MAX_REJECTED:.0%}; is it the right file? The first of them:\n{listed}"
            )


def _bin(label: float | None, task: Task) -> str:
    if label is None:
        return "none"
    if task.kind != "regression":
        return str(int(label))
    low = min(int(label), int(task.high) - 1)
    return f"{low}-{low + 1}"
