"""Files and tasks of one's own, for tests, and the built-in tasks' files."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from planning import planning_folder

from minbert.data.dataset import Dataset, make, read_dataset
from minbert.data.examples import Example
from minbert.data.parquet import read_file
from minbert.plan.sources import Sources
from minbert.spec.config import Config, load_config
from minbert.spec.protocol import SPLITS
from minbert.spec.task import BUILT_IN, TASKS, Task
from minbert.store.job import Job
from minbert.store.node import Node

SHARED = Path(os.environ.get("MINBERT_SHARED", Path(__file__).parents[3] / "shared")) / "data"
COURSE = SHARED / "cs224n"
needs_course = pytest.mark.skipif(not COURSE.is_dir(), reason=f"no course files in {COURSE}")

TOPICS = ("world", "sports", "business")
NEWS = {"kind": "classification", "classes": list(TOPICS), "sentence1": "text", "label": "topic"}
SCORE = {"kind": "regression", "range": [0, 10], "sentence1": "text", "label": "topic"}
PAIR = {"kind": "binary", "sentence1": "a", "sentence2": "b", "label": "same"}

Row = tuple[str, object]
"""A text and its label."""
Files = dict[str, str | bytes]
"""Files by name."""


def rows(n: int, first: int = 0, labels: tuple[object, ...] = TOPICS) -> list[Row]:
    """Return `n` rows of news whose texts begin at number `first`."""
    return [(f"text number {at}", labels[at % len(labels)]) for at in range(first, first + n)]


def table(given: list[Row], between: str = "\t", head: str = "text{}topic") -> str:
    """Return rows as lines of a file."""
    lines = [head.format(between), *(f"{text}{between}{label}" for text, label in given)]
    return "\n".join(lines) + "\n"


def read(task: str, **paths: Path) -> Dataset:
    """Read the files of a built-in task by split."""
    forms = dict.fromkeys(paths, BUILT_IN[task].format)
    return read_dataset({"task": task, "forms": forms, **BUILT_IN[task].reading}, paths)


def course(task: str, *splits: str) -> Dataset:
    """Read the course's files of a task."""
    files = BUILT_IN[task].files
    return read(task, **{s: COURSE / getattr(files, s).path for s in splits or SPLITS})


def configured(folder: Path, entry: Mapping[str, Any], name: str = "news") -> Config:
    """Return a configuration with a task of one's own, whose paths begin at `folder`."""
    config = load_config(
        {
            "grids": ["g"],
            "data": "builtin",
            "backbone": "builtin",
            "results": str(folder / "results"),
            "tasks": {name: entry},
        }
    )
    TASKS.use(Task.of(*entry) for entry in config.tasks.items())
    return config


def node(folder: Path, files: Mapping[str, str | bytes], entry: Mapping[str, Any]) -> Node:
    """Write files, and return the planned node of the task that they are of."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    planning_folder(folder)
    config = configured(folder, entry)
    return Sources(config, folder / "results", folder).data("news")


def job(folder: Path, planned: Node) -> Job:
    """Return the job that makes a planned node."""
    return Job(folder / "results", {**planned.describe(), "extra": planned.extra}, None, 1)


def built(folder: Path, files: Mapping[str, str | bytes], entry: Mapping[str, Any]) -> Path:
    """Make the data set of files; return its folder."""
    made = job(folder, node(folder, files, entry))
    make(made)
    return made.out


def examples(out: Path) -> list[Example]:
    """Return the examples in the folder of a data set."""
    return [Example(**row) for row in read_file(out / "examples.parquet").to_pylist()]


def rejects(out: Path) -> dict[int, str]:
    """Return what is wrong with the rejected rows, by their lines."""
    with (out / "rejected.csv").open(encoding="utf-8", newline="") as handle:
        return {int(row["line"]): row["reason"] for row in csv.DictReader(handle)}


GOOD, DEV = table(rows(60)), table(rows(12, 2000))
TWO = {"train": "t.tsv", "dev": "d.tsv"}
BOTH = NEWS | {"files": TWO}
