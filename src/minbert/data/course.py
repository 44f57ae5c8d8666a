"""The course's files: Stanford CS 224N's default project of 2023 (SST, Quora, STS, CFIMDB)."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from minbert.base.errors import UserError, nearest, no_file
from minbert.base.files import LARGEST
from minbert.data.examples import LONGEST, Example, Rejected, decode, fault, number_in, split_lines
from minbert.data.identity import check_unchanged, checksum
from minbert.data.report import make_dataset
from minbert.spec.protocol import COURSE_URL, SPLITS
from minbert.spec.task import BUILT_IN, TASKS, Task
from minbert.store.job import Job

COURSE_FILES: dict[str, dict[str, tuple[str, str]]] = {
    "sst": {
        "train": ("ids-sst-train.csv", "git:9cb7333cb1dae49c2bd2a4b56a24882a6e8704b5"),
        "dev": ("ids-sst-dev.csv", "git:3171aa629a340809d2db4a50df8f6e5ec9420ab0"),
        "test": ("ids-sst-test-student.csv", "git:bbd2313758825f86e24416d6aad64cd93370cf7a"),
    },
    "para": {
        "train": ("quora-train.csv", "git:a3b5546f6a0e65b60a328a5d294d1038f5bed1da"),
        "dev": ("quora-dev.csv", "git:de7cfa32428fd470b93f778fccc45a619e01336f"),
        "test": ("quora-test-student.csv", "git:f257ef00558555afb50819578a58205732b16354"),
    },
    "sts": {
        "train": ("sts-train.csv", "git:12b17760e7795fee35aeeabc290d5651de02622a"),
        "dev": ("sts-dev.csv", "git:9392860e584717976b8d817cc40c9e6ceeec27e0"),
        "test": ("sts-test-student.csv", "git:25f0cf8fafdd1f82b9e2bb460c708af34341ce60"),
    },
    "cfimdb": {
        "train": ("ids-cfimdb-train.csv", "git:cd57bcbd2f7214ea6dd1783d3e885d324b1f478d"),
        "dev": ("ids-cfimdb-dev.csv", "git:8a0f5dcf3d40189b96c801a12cd79bf8003e61de"),
        "test": ("ids-cfimdb-test-student.csv", "git:1e789c709b3ca0511f027a309b6d8bd21cde41b2"),
    },
}
"""The name of each file under `COURSE_URL`, and its git blob id, by task and split."""


def course_files(task: str) -> dict[str, tuple[str, str]]:
    """Return {split: (file name, pin)} of `task`; `UserError` if the course has no such task."""
    if task not in COURSE_FILES:
        raise UserError(
            f"the course has no files for task '{task}'; it has {', '.join(COURSE_FILES)}."
            f"{nearest(task, COURSE_FILES)}"
        )
    return COURSE_FILES[task]


def in_folder(task: str, folder: Path) -> dict[str, Path]:
    """Return {split: path} of the task's files in `folder`; `UserError` names a missing one."""
    if not folder.is_dir():
        raise UserError(f"no such folder: {folder} (expected the files of task '{task}' in it)")
    paths = {split: folder / name for split, (name, _) in course_files(task).items()}
    for path in paths.values():
        if wrong := no_file(path):
            raise UserError(f"{path}: {wrong}; put the file itself there")
        if not path.is_file():
            raise UserError(
                f"{folder} has no {path.name}, which task '{task}' needs."
                f"{nearest(path.name, [p.name for p in folder.iterdir()])} "
                f"Copy it there, or download it from {COURSE_URL}/{path.name}"
            )
    return paths


def make(job: Job) -> None:
    """Make the data set of the job's task from the course's files, downloaded or in a folder."""
    paths = {split: job.need(split) for split in job.described["needs"]}
    paths = paths or {split: Path(path) for split, path in job.extra["paths"].items()}
    for split, path in paths.items():
        planned = job.spec["files"][split]
        check_unchanged(path, checksum(path, planned), planned)
    make_dataset(job, *read_course(job.spec["task"], paths))


def read_course(task: str, paths: Mapping[str, Path | str]) -> tuple[list[Example], list[Rejected]]:
    """Read the files {split: path} of `task`; return the examples, split by split, and rejections.

    The files are UTF-8 text with a header, one row per line and tabs between the columns; unnamed
    columns are ignored, fields may be quoted as in RFC 4180, and white space around a sentence is
    removed. (The course's starter code also lower-cases pairs and puts spaces around `. ? , '`; an
    uncased WordPiece tokenizer does both itself.)

    A row with another number of columns, open quotes, or an invalid or repeated example (`fault`)
    is rejected. Raises `UserError` for a missing file or column, another delimiter, text that is
    not UTF-8, or a file without rows.
    """
    examples: list[Example] = []
    rejected: list[Rejected] = []
    places: dict[str, str] = {}
    for split in (split for split in SPLITS if split in paths):
        path = Path(paths[split])
        for line, text, row in _rows(path, task, split):
            example, reason = (
                (None, row) if isinstance(row, str) else _example(row, split, TASKS[task])
            )
            if example is not None and example.id in places:
                reason = f"id '{example.id[:80]}' is already in {places[example.id]}"
            if example is None or reason:
                rejected.append(Rejected(path.name, line, str(reason), text, split))
                continue
            places[example.id] = f"{path.name}, line {line}"
            examples.append(example)
    return examples, rejected


def _rows(path: Path, task: str, split: str) -> Iterator[tuple[int, str, dict[str, str] | str]]:
    """Yield (line number, raw line, fields by name or what is wrong with the line)."""
    try:
        with path.open("rb") as file:
            lines = split_lines(decode(file.read(LARGEST + 1), path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if not lines:
        raise UserError(f"{path}: the file is empty; expected a header and rows")
    csv.field_size_limit(max(csv.field_size_limit(), 4 * LONGEST))  # 131,072 by default
    try:
        header = next(csv.reader(lines[:1], delimiter="\t", strict=True), [])
    except csv.Error as error:
        raise UserError(f"{path}, line 1: a header that cannot be read ({error})") from None
    columns = _columns(path, task, split, header)
    if len(lines) == 1:
        raise UserError(f"{path}: a header without rows")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) > 4 * LONGEST:
            yield number, line[:LONGEST], f"a line of {len(line):,} characters"
            continue
        # Line by line, because in a whole file a stray quote would swallow the rows after it.
        try:
            fields = next(csv.reader([line], delimiter="\t", strict=True), [])
        except csv.Error as error:
            yield number, line, f"malformed quotes ({error})"
            continue
        if len(fields) != len(header):
            yield number, line, f"{len(fields)} columns, but the header has {len(header)}"
        else:
            yield number, line, {name: fields[at].strip() for name, at in columns.items()}


def _columns(path: Path, task: str, split: str, header: list[str]) -> dict[str, int]:
    """Return the position of each column needed, by its name in the example table."""
    wanted = BUILT_IN[task].columns
    if split == "test" and wanted["label"] not in header:
        del wanted["label"]
    names = [name.strip() for name in header]
    missing = [name for name in wanted.values() if name not in names]
    if missing and len(header) == 1:
        raise UserError(
            f"{path}, line 1: no tab in the header '{header[0][:80]}'; expected tabs between "
            f"the columns, among them {', '.join(wanted.values())}. Convert the delimiter to tabs"
        )
    if missing:
        raise UserError(
            f"{path}, line 1: no column '{missing[0]}' for task '{task}' ({split}); found "
            f"{', '.join(filter(None, names))[:400]}.{nearest(missing[0], names[:99])}"
        )
    if twice := [name for name in wanted.values() if names.count(name) > 1]:
        raise UserError(
            f"{path}, line 1: {names.count(twice[0])} columns are called '{twice[0]}', expected "
            "one; rename or remove the others"
        )
    return {ours: names.index(theirs) for ours, theirs in wanted.items()}


def _example(
    row: dict[str, str], split: str, task: Task
) -> tuple[Example, str | None] | tuple[None, str]:
    """Return the example of a row, if there is one, and what is wrong with it, or None."""
    label = None
    if (found := row.get("label")) and (label := number_in(found)) is None:
        return None, f"label '{found[:80]}' is not a number"
    example = Example(row["id"], split, row["sentence1"], row.get("sentence2"), label)
    return example, fault(example, task)
