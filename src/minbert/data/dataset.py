"""A task's data set: its files read into the example table, the rejected rows, and a report.

All tasks are read here, the built-in ones (`minbert.spec.tasks`) as a user's own.
"""

import csv
import hashlib
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from minbert.base.errors import UserError
from minbert.base.files import whole, write_json
from minbert.data.examples import (
    Example,
    Rejected,
    fault,
    label_of,
    overlapping,
    seen,
    write_examples,
)
from minbert.data.identity import check_unchanged
from minbert.data.lmrd import read_reviews
from minbert.data.tables import read_rows, unicode_fault
from minbert.spec.protocol import SPLITS
from minbert.spec.task import TASKS, Task
from minbert.store.job import Job

MAX_REJECTED = 0.01
"""The largest share of a split's rows that may be malformed; beyond it, the file is wrong."""


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
    found = read_dataset(job.spec, paths)
    made, limit = job.spec["made"], job.spec.get("limit")
    report = write_dataset(job.spec["task"], found, job.out, made, limit)
    task, overlaps = job.spec["task"], report["overlaps"]
    leaked = {split: overlaps.get(f"{split} in train", 0) for split in ("dev", "test")}
    said = [f"{n} {split} rows have the text of a train row" for split, n in leaked.items() if n]
    rows = ", ".join(f"{split} {n}" for split, n in report["rows"].items())
    said = [f"{rows} rows, {len(found.rejected)} set aside", *said, *report["warnings"]]
    for each in said:
        print(f"{task}: {each}", file=sys.stderr)


def read_dataset(spec: Mapping[str, Any], paths: Mapping[str, Path]) -> Dataset:
    """Read the files of a task: {split: path}, or {"archive": path} of LMRD.

    `spec` has the `task` and what decides how its files are read (`TaskEntry.reading`), with the
    `forms` of the files by split. Labels are names or numbers (`label_of`); a test file need not
    have any. A row that cannot be read, or with an invalid or repeated example (`fault`), is
    rejected. Train is split up as `made` says.
    """
    found = Dataset([], [], Counter())
    places: dict[str, str] = {}
    label = spec["columns"]["label"]
    for split, file, line, text, row in _rows(spec, paths):
        given = "" if isinstance(row, str) else str(row.get(label))
        if given.removesuffix(".0") in spec["ignore"]:
            found.ignored[split] += 1
            continue
        example = row if isinstance(row, str) else _example(row, split, line, spec)
        if isinstance(example, Example) and example.id in places:
            example = (
                f"id '{example.id[:80]}' is already in {places[example.id]}; are ids unique? "
                "Without 'id' in the task, rows are known by their split and line"
            )
        if isinstance(example, str):
            found.rejected.append(Rejected(file, line, example, text[:1000], split))
            continue
        places[example.id] = f"{file}, line {line}"
        found.examples.append(example)
    return found._replace(examples=with_made_splits(found.examples, spec["made"]))


def _rows(
    spec: Mapping[str, Any], paths: Mapping[str, Path]
) -> Iterator[tuple[str, str, int, str, dict[str, Any] | str]]:
    """Yield split, file, line, text and fields (or what is wrong) of all rows."""
    if "archive" in paths:
        for split, file, text, fields in read_reviews(paths["archive"]):
            yield split, file, 1, text, fields
    columns = spec["columns"]
    for split in (split for split in SPLITS if split in paths):
        optional = columns["label"] if split == "test" else ""
        for row in read_rows(paths[split], spec["forms"][split], [*columns.values()], optional):
            yield split, paths[split].name, *row


def _example(
    row: Mapping[str, Any], split: str, line: int, spec: Mapping[str, Any]
) -> Example | str:
    """Return the example of a row, or what is wrong with it."""
    task, columns = TASKS[spec["task"]], spec["columns"]
    values = {ours: row.get(theirs) for ours, theirs in columns.items()}
    for name in ("sentence1", "sentence2"):
        if name in values and not isinstance(values[name], str):
            return f"{columns[name]} is {str(values[name])[:80]}, expected text"
    known = f"{split}-{line}" if values.get("id") is None else str(values["id"])
    first, second = str(values["sentence1"]), values.get("sentence2")
    if not spec["controls"]:
        for name, text in (("sentence1", first), ("sentence2", second or ""), ("id", known)):
            if wrong := unicode_fault(text):
                return f"{columns.get(name, name)} contains {wrong}"
    label = label_of(values["label"], task)
    if isinstance(label, str):
        wrong = label
    else:
        example = Example(known, split, first, second, label)
        if not (wrong := fault(example, task)):
            return example
    hidden = split == "test" and wrong.startswith("label ")
    return wrong + "; leave the column out if test labels are not public" * hidden


def with_made_splits(examples: Iterable[Example], made: Mapping[str, float]) -> list[Example]:
    """Return the examples, train's split up by the shares `made`, in the order of the splits.

    What is below a share of the hashes of texts (`seen`) becomes that split, so that rows with the
    same text stay together, and stay where they are when rows are added.
    """
    found: dict[str, list[Example]] = {split: [] for split in SPLITS}
    for example in examples:
        split = example.split
        if made and split == "train":
            text = "\0".join(seen(example.sentence1, example.sentence2))
            at = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) / 2**64
            for name, share in made.items():
                if at < share:
                    split = name
                    break
                at -= share
        found[split].append(example._replace(split=split))
    return [example for split in SPLITS for example in found[split]]


def write_dataset(
    task: str, found: Dataset, out: Path, made: Collection[str] = (), limit: int | None = None
) -> dict[str, Any]:
    """Write `examples.parquet`, `rejected.csv` and `report.json` to `out`; return the last.

    With a `limit` only that many examples of each split are kept, evenly spaced: the reviews of
    LMRD stand in the order of their classes.
    Refuses a split with too many rejected rows, those of the splits that were `made` of train's
    counting as train's, and data from which nothing can be learnt.
    """
    examples, rejected, ignored = found
    _check_share(task, examples, rejected, made)
    if limit is not None:
        of = {split: [e for e in examples if e.split == split] for split in SPLITS}
        examples = [e for split in SPLITS for e in _spaced(of[split], limit)]
    report = _describe(TASKS[task], examples, rejected)
    warnings = _check_learnable(task, examples)
    warnings += [f"{n:,} {split} rows have an ignored label" for split, n in ignored.items()]
    out.mkdir(parents=True, exist_ok=True)
    write_examples(task, examples, out / "examples.parquet")
    with (
        whole(out / "rejected.csv") as temporary,
        # The name of a file, or what a row has, may be no UTF-8.
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as handle,
    ):
        writer = csv.writer(handle)
        writer.writerow(["file", "line", "reason", "text"])
        writer.writerows((r.file, r.line, r.reason, r.text) for r in rejected)
    write_json(out / "report.json", report | {"warnings": warnings})
    return report | {"warnings": warnings}


def _spaced(examples: Sequence[Example], limit: int) -> Sequence[Example]:
    if len(examples) <= limit:
        return examples
    return [examples[n * len(examples) // limit] for n in range(limit)]


def _check_share(
    task: str, examples: Sequence[Example], rejected: Sequence[Rejected], made: Collection[str]
) -> None:
    """Refuse a split of which more than `MAX_REJECTED` of the rows are malformed."""
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


def _check_learnable(task: str, examples: Sequence[Example]) -> list[str]:
    """Refuse data from which nothing can be learnt, or on which nothing can be told apart.

    Returns warnings of what can be learnt only in part: classes that train lacks, texts with
    several labels.
    """
    of_split: dict[str, list[Example]] = {split: [] for split in SPLITS}
    labels_of: dict[tuple[str, ...], set[float]] = {}
    for example in examples:
        of_split[example.split].append(example)
        # In their order: which sentence comes first can decide a label, as in entailment.
        text = (*seen(example.sentence1, None), *seen(example.sentence2 or "", None))
        labels = labels_of.setdefault(text, set())
        if example.label is not None:
            labels.add(example.label)
    names = TASKS[task].names
    for split in ("train", "dev"):
        rows = of_split[split]
        if not rows and len(labels_of) == 1:
            raise UserError(
                f"task '{task}': all {len(examples):,} rows have the same text, expected different "
                "ones; is 'sentence1' the right column?"
            )
        if not rows:
            raise UserError(
                f"task '{task}': no {split} rows are left; give more rows, or another share "
                f"(`{'dev' if split == 'dev' else 'test'}` in the task)"
            )
        found = {row.label for row in rows}
        if len(found) == 1:
            (label,) = found
            said = f"{label:g}" + (f" ({names[int(label or 0)]})" if names else "")
            raise UserError(
                f"task '{task}': all {len(rows):,} {split} rows have the label {said}, expected "
                "two labels or more; is 'label' the right column?"
            )
    for split, ids in overlapping(example._asdict() for example in examples).items():
        if ids and len(ids) == len(of_split[split]):
            raise UserError(
                f"task '{task}': the text of each of its {len(ids):,} {split} rows is in train "
                f"too, so {split} says nothing of new text; is it the same file? Give another one, "
                f"or make the split: '{split}: 0.1' in place of the file"
            )
    return list(_warnings(TASKS[task], of_split["train"], labels_of.values()))


def _warnings(
    task: Task, train: Iterable[Example], labels_of: Iterable[Collection[float]]
) -> Iterator[str]:
    if task.kind != "regression":
        there = {row.label for row in train}
        absent = [n for n in range(max(2, task.classes)) if n not in there]
        if absent:
            shown = ", ".join(task.names[n] if task.names else str(n) for n in absent[:12])
            more = " ..." if len(absent) > 12 else ""
            yield f"train has no row of {len(absent)} of its classes: {shown}{more}"
    if several := sum(len(labels) > 1 for labels in labels_of):
        yield f"{several:,} texts occur with more than one label"


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


def _bin(label: float | None, task: Task) -> str:
    if label is None:
        return "none"
    if task.kind != "regression":
        return str(int(label))
    low = min(int(label), int(task.high) - 1)
    return f"{low}-{low + 1}"
