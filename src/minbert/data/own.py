"""Data sets of one's own: files whose columns a task names (`minbert.spec.entry`)."""

import hashlib
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json
from minbert.data.examples import Example, Rejected, fault, number_in
from minbert.data.identity import check_unchanged, checksum
from minbert.data.report import check_share, make_dataset, overlapping, seen
from minbert.data.tables import READERS, read_rows, unicode_fault
from minbert.spec.entry import DataFile, OwnTask
from minbert.spec.protocol import SPLITS
from minbert.spec.task import TASKS, Task
from minbert.store.job import Job


def own_files(name: str, entry: OwnTask) -> dict[str, DataFile]:
    """Return {split: file} of a task of one's own; `UserError` if its folder has none for train.

    A folder's files are called by their splits: `train.tsv`, `dev.jsonl`.
    """
    files, where = entry.files, f"config: tasks.{name}.files"
    if files.folder is None:
        found = {split: file for split in SPLITS if (file := getattr(files, split)) is not None}
    else:
        found = _in_folder(name, entry, Path(files.folder), where)
    for split, file in found.items():
        if file.path and Path(file.path).is_dir():
            raise UserError(
                f"{where}: {split} is {file.path}, which is a folder, expected one file; name the "
                "file in it. If the data set is in parts, as Spark writes it, join them first"
            )
    return found


def _in_folder(name: str, entry: OwnTask, folder: Path, where: str) -> dict[str, DataFile]:
    """Return {split: file} of the files in a folder that are called by their splits."""
    if folder.is_file():
        found = {"train": DataFile(path=str(folder))}
    elif not folder.is_dir():
        raise UserError(f"{where}: there is no file or folder '{folder}'; check the path")
    else:
        found = {}
        for split in SPLITS:
            paths = [path for form in READERS if (path := folder / f"{split}.{form}").exists()]
            if len(paths) > 1:
                names = " and ".join(path.name for path in paths)
                raise UserError(f"{where}: {folder} has {names}; keep one of them")
            if paths:
                found[split] = DataFile(path=str(paths[0]))
    if "train" not in found:
        listed = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
        raise UserError(
            f"{where}: {folder} has no train file; it has {listed}. Call the files "
            f"train, dev and test, with an ending such as .{next(iter(READERS))}, or name them"
        )
    if "dev" not in found and entry.dev is None:
        raise UserError(
            f"{where}: {folder} has no dev file to choose the best epoch by; add one, or make the "
            f"split: 'dev: 0.1' in tasks.{name}"
        )
    if both := [split for split in entry.made if split in found]:
        raise UserError(
            f"config: tasks.{name}.{both[0]}: {folder} has a file for {both[0]}; leave out the "
            "share, or the file"
        )
    return found


def make(job: Job) -> None:
    """Make the data set of the job's task from its files."""
    paths = {split: job.need(split) for split in job.described["needs"]}
    paths |= {split: Path(path) for split, path in job.extra["paths"].items()}
    for split, path in paths.items():
        planned = job.spec["files"][split]
        check_unchanged(path, checksum(path, planned), planned)
    task = job.spec["task"]
    examples, rejected, ignored = read_own(job.spec, paths)
    check_share(task, examples, rejected, job.spec["made"])
    leaked = overlapping(example._asdict() for example in examples)
    warnings = check_learnable(task, examples, leaked)
    warnings += [f"{n:,} {split} rows have an ignored label" for split, n in ignored.items()]
    make_dataset(job, examples, rejected, job.spec["made"])
    # Here and not in `data.report`, whose code the keys of all data sets count.
    report = job.out / "report.json"
    write_json(report, read_json(report) | {"warnings": warnings})
    said = [
        f"{len(ids)} {split} rows have the text of a train row"
        for split, ids in leaked.items()
        if ids
    ]
    for each in (*said, *warnings):
        print(f"{task}: {each}", file=sys.stderr)


def read_own(
    spec: Mapping[str, Any], paths: Mapping[str, Path]
) -> tuple[list[Example], list[Rejected], Counter[str]]:
    """Read the files {split: path}; return examples by split, rejected rows, ignored ones' number.

    `spec` has the `task`, the `forms` of the files by split, their `columns` by those of the
    example table, the `names` of the classes, the labels to `ignore`, and the shares of train that
    are `made` into other splits. Labels are names or numbers (`label_of`); a test file need not
    have any. A row that cannot be read, or with an invalid or repeated example (`fault`), is
    rejected.
    """
    task, columns = TASKS[spec["task"]], spec["columns"]
    examples: list[Example] = []
    rejected: list[Rejected] = []
    places: dict[str, str] = {}
    ignored: Counter[str] = Counter()
    for split in (split for split in SPLITS if split in paths):
        path = paths[split]
        optional = columns["label"] if split == "test" else ""
        for line, text, row in read_rows(path, spec["forms"][split], [*columns.values()], optional):
            label = "" if isinstance(row, str) else str(row.get(columns["label"]))
            if label.removesuffix(".0") in spec["ignore"]:
                ignored[split] += 1
                continue
            found = row if isinstance(row, str) else _example(row, split, line, spec, task)
            if isinstance(found, Example) and found.id in places:
                found = (
                    f"id '{found.id[:80]}' is already in {places[found.id]}; are ids unique? "
                    "Without 'id' in the task, rows are known by their split and line"
                )
            if isinstance(found, str):
                rejected.append(Rejected(path.name, line, found, text[:1000], split))
                continue
            places[found.id] = f"{path.name}, line {line}"
            examples.append(found)
    if spec["made"]:
        examples = with_made_splits(examples, spec["made"])
    return examples, rejected, ignored


def _example(
    row: Mapping[str, Any], split: str, line: int, spec: Mapping[str, Any], task: Task
) -> Example | str:
    """Return the example of a row, or what is wrong with it."""
    values = {ours: row.get(theirs) for ours, theirs in spec["columns"].items()}
    for name in ("sentence1", "sentence2"):
        if name in values and not isinstance(values[name], str):
            return f"{spec['columns'][name]} is {str(values[name])[:80]}, expected text"
    known = f"{split}-{line}" if values.get("id") is None else str(values["id"])
    first, second = str(values["sentence1"]), values.get("sentence2")
    for name, text in (("sentence1", first), ("sentence2", second or ""), ("id", known)):
        if wrong := unicode_fault(text):
            return f"{spec['columns'].get(name, name)} contains {wrong}"
    label = label_of(values["label"], task, spec["names"])
    if isinstance(label, str):
        wrong = label
    else:
        example = Example(known, split, first, second, label)
        if not (wrong := fault(example, task)):
            return example
    hidden = split == "test" and wrong.startswith("label ")
    return wrong + "; leave the column out if test labels are not public" * hidden


def label_of(value: Any, task: Task, names: Sequence[str]) -> float | str | None:
    """Return a label as a number, None if there is none, or what is wrong with it.

    A class is known by its name, else by its number from 0; not by its number if names are numbers
    themselves.
    """
    if value is None or value == "":
        return None
    text = str(value)
    if (said := text.lower()) in ("true", "false"):  # a class of this name, or 0 and 1
        text = next((name for name in names if name.lower() == said), str(int(said == "true")))
    for name in (text, text.removesuffix(".0")):
        if name in names:
            return float(names.index(name))
    number = number_in(text)
    if number is None and not names:
        return f"label '{text[:80]}' is not a number"
    named = any(number_in(name) is not None for name in names)
    if number is None or (names and (named or not 0 <= number < len(names))):
        shown = ", ".join(names[:12]) + (" ..." if len(names) > 12 else "")
        numbers = "" if named else f", or 0 to {len(names) - 1}"
        return f"label '{text[:80]}' is not one of {shown}{numbers}"
    return number


def with_made_splits(examples: Iterable[Example], made: Mapping[str, float]) -> list[Example]:
    """Return the examples, train's split up by the shares `made`, in the order of the splits.

    What is below a share of the hashes of texts (`seen`) becomes that split, so that rows with the
    same text stay together, and stay where they are when rows are added.
    """
    found: dict[str, list[Example]] = {split: [] for split in SPLITS}
    for example in examples:
        split = example.split
        if split == "train":
            text = "\0".join(seen(example.sentence1, example.sentence2))
            at = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) / 2**64
            for name, share in made.items():
                if at < share:
                    split = name
                    break
                at -= share
        found[split].append(example._replace(split=split))
    return [example for split in SPLITS for example in found[split]]


def check_learnable(
    task: str, examples: Sequence[Example], leaked: Mapping[str, Collection[str]]
) -> list[str]:
    """Refuse data from which nothing can be learnt, or on which nothing can be told apart.

    `leaked` are, for dev and test, the ids of the rows whose text is in train too. Returns warnings
    of what can be learnt only in part: classes that train lacks, texts with several labels.
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
    for split, ids in leaked.items():
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
