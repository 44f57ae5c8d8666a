"""A task's data set: its files read into the example table, the rejected rows, and a report.

All tasks are read here, the built-in ones (`minbert.spec.tasks`) as a user's own.
"""

import csv
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import floor
from pathlib import Path
from typing import Any, NamedTuple

from minbert.base.errors import UserError
from minbert.base.files import whole, write_json
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
    """A rejected row: its file and line (from 1), the reason, its raw text and its split."""

    file: str
    line: int
    reason: str
    text: str
    split: str


class Dataset(NamedTuple):
    """What files hold: examples by split, rejected rows, and how many labels were ignored."""

    examples: list[Example]
    rejected: list[Rejected]
    ignored: Counter[str]


def make(job: Job) -> None:
    """Make the data set of the job's task from its files."""
    paths = {name: job.need(name) for name in job.described["needs"]}
    paths |= {name: Path(path) for name, path in job.extra["paths"].items()}
    for name, path in paths.items():
        check_unchanged(path, job.spec["files"][name])
    found, task = read_dataset(job.spec, paths), job.spec["task"]
    report = write_dataset(task, found, job.out, job.spec["made"], job.spec.get("limit"))
    rows = ", ".join(f"{split} {n}" for split, n in report["rows"].items())
    both = [f"{n:,} rows of {where}, by their text" for where, n in report["overlaps"].items() if n]
    for said in (f"{rows} rows, {len(found.rejected)} set aside", *both, *report["warnings"]):
        print(f"{task}: {said}", file=sys.stderr)


def read_dataset(spec: Mapping[str, Any], paths: Mapping[str, Path]) -> Dataset:
    """Read the files of a task: {split: path}, or {"archive": path} of LMRD.

    `spec` has the `task` and what decides how its files are read (`TaskEntry.reading`), with the
    `forms` of the files by split. Labels are names or numbers (`label_of`); a test file need not
    have any. A row that cannot be read, or with an invalid or repeated example, is rejected.
    """
    found, ids, label = Dataset([], [], Counter()), set[str](), spec["columns"]["label"]
    for split, file, line, text, row in _rows(spec, paths):
        try:
            if isinstance(row, str):
                raise BadRow(row)
            if str(row.get(label)).removesuffix(".0") in spec["ignore"]:
                found.ignored[split] += 1
                continue
            example = _example(row, split, line, spec)
            if example.id in ids:
                raise BadRow(f"a row above has the id '{example.id[:80]}', too")
        except BadRow as error:
            found.rejected.append(Rejected(file, line, str(error), text[:1000], split))
        else:
            ids.add(example.id)
            found.examples.append(example)
    return found


def _rows(
    spec: Mapping[str, Any], paths: Mapping[str, Path]
) -> Iterator[tuple[str, str, int, str, Fields | str]]:
    """Yield split, file, line, text and fields (or what is wrong) of all rows."""
    if "archive" in paths:
        for split, file, fields in read_reviews(paths["archive"]):
            yield split, file, 1, fields["sentence"], fields
    columns = spec["columns"]
    for split in (split for split in SPLITS if split in paths):
        optional = columns["label"] if split == "test" else ""
        for row in read_rows(paths[split], spec["forms"][split], [*columns.values()], optional):
            yield split, paths[split].name, *row


def _example(row: Fields, split: str, line: int, spec: Mapping[str, Any]) -> Example:
    """Return the example of a row; `BadRow` if it is none."""
    columns, given = spec["columns"], row.get(spec["columns"].get("id"))
    known = f"{split}-{line}" if given is None else str(given)
    texts = {columns[name]: row[columns[name]] for name in columns if name[:-1] == "sentence"}
    for name, text in {**texts, "id": known}.items():
        if wrong := text_fault(text, spec["controls"]):
            raise BadRow(f"{name} {wrong}")
    if any(c.isspace() for c in known):
        raise BadRow(f"id '{known[:80]}' contains white space")
    label = label_of(row.get(columns["label"]), TASKS[spec["task"]])
    if label is None and split != "test":
        raise BadRow(f"a {split} row without a label")
    first, second = (*texts.values(), None)[:2]
    return Example(known, split, str(first), second, label)


def with_made_splits(examples: Iterable[Example], made: Mapping[str, float]) -> list[Example]:
    """Return the examples, train's split up by the shares `made`.

    What is below a share of the hashes of texts (`seen`) becomes that split, so that rows with the
    same text stay together, and stay where they are when rows are added.
    """
    found = []
    for example in examples:
        split = example.split
        if made and split == "train":
            text = "\0".join(seen(example.sentence1, example.sentence2))
            at = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) / 2**64
            for name, share in made.items():
                if 0 <= at < share:
                    split = name
                at -= share
        found.append(example._replace(split=split))
    return found


def write_dataset(
    task: str, found: Dataset, out: Path, made: Mapping[str, float], limit: int | None = None
) -> dict[str, Any]:
    """Write `examples.parquet`, `rejected.csv` and `report.json` to `out`; return the last.

    Train is split up as `made` says (`with_made_splits`). With a `limit` only that many examples of
    each split are kept, evenly spaced: the reviews of LMRD stand in the order of their classes.
    Refuses files with too many rejected rows, and data from which nothing can be learnt.
    """
    for split in SPLITS:
        bad = [r for r in found.rejected if r.split == split]
        rows = len(bad) + sum(e.split == split for e in found.examples)
        if len(bad) > MAX_REJECTED * rows:
            listed = "\n".join(f"  {r.file}, line {r.line}: {r.reason}" for r in bad[:5])
            raise UserError(
                f"task '{task}': {len(bad)} of {rows} {split} rows are malformed, more than "
                f"{MAX_REJECTED:.0%}; is it the right file? The first of them:\n{listed}"
            )
    examples = with_made_splits(found.examples, made)
    of = {split: [e for e in examples if e.split == split] for split in SPLITS}
    if limit is not None:
        kept = {split: min(limit, len(e)) for split, e in of.items()}
        of = {s: [e[n * len(e) // kept[s]] for n in range(kept[s])] for s, e in of.items()}
    report = describe(TASKS[task], of)
    report["rejected"] = dict(sorted(Counter(r.split for r in found.rejected).items()))
    report["warnings"] += [
        f"{n:,} {s} rows have an ignored label" for s, n in found.ignored.items()
    ]
    write_examples([e for split in SPLITS for e in of[split]], out / "examples.parquet")
    with (
        whole(out / "rejected.csv") as temporary,
        # What a row has may be no UTF-8.
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as handle,
    ):
        writer = csv.writer(handle)
        writer.writerow(["file", "line", "reason", "text"])
        writer.writerows(rejected[:4] for rejected in found.rejected)
    write_json(out / "report.json", report)
    return report


def describe(task: Task, of: Mapping[str, Sequence[Example]]) -> dict[str, Any]:
    """Return what is in a data set, by split, with warnings of what can be learnt only in part.

    `labels` counts whole labels, or those from n to n + 1 for regressions. `mean_words` counts
    words in both sentences. In `overlaps`, `dev in train` counts dev rows whose text (`seen`) is
    also in train. Raises `UserError` for data from which nothing can be learnt, or on which
    nothing can be told apart.
    """
    rows = {split: len(examples) for split, examples in of.items() if examples}
    texts = {s: [seen(e.sentence1, e.sentence2) for e in of[s]] for s in rows}
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
    return {
        "task": task.name,
        "rows": rows,
        "labels": {
            s: dict(Counter("none" if e.label is None else str(floor(e.label)) for e in of[s]))
            for s in rows
        },
        "mean_words": {
            split: round(sum(len(" ".join(text).split()) for text in found) / len(found), 2)
            for split, found in texts.items()
        },
        "overlaps": overlaps,
        "warnings": list(_warnings(task, of)),
    }


def _warnings(task: Task, of: Mapping[str, Sequence[Example]]) -> Iterator[str]:
    if task.kind != "regression":
        there = {example.label for example in of["train"]}
        names = task.names or tuple(str(n) for n in range(max(2, task.classes)))
        if absent := [name for n, name in enumerate(names) if n not in there]:
            yield f"train has no row of {len(absent)} of its classes: {', '.join(absent[:12])}"
    # In their order: which sentence comes first can decide a label, as in entailment.
    labels_of: dict[tuple[str, ...], set[float]] = {}
    for example in (example for split in SPLITS for example in of[split]):
        text = (*seen(example.sentence1, None), *seen(example.sentence2 or "", None))
        if example.label is not None:
            labels_of.setdefault(text, set()).add(example.label)
    if several := sum(len(labels) > 1 for labels in labels_of.values()):
        yield f"{several:,} texts occur with more than one label"
