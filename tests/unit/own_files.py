"""Files and tasks of one's own, for tests, and the built-in tasks' files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planning import planning_folder

from minbert.data.dataset import Dataset, make, read_dataset
from minbert.plan.experiment import Sources
from minbert.spec.config import Config, load_config
from minbert.spec.task import BUILT_IN, TASKS, Task
from minbert.store.job import Job
from minbert.store.node import Node

TOPICS = ("world", "sports", "business")
NEWS = {"kind": "classification", "classes": list(TOPICS), "sentence1": "text", "label": "topic"}
SCORE = {"kind": "regression", "range": [0, 10], "sentence1": "text", "label": "topic"}
PAIR = {"kind": "binary", "sentence1": "a", "sentence2": "b", "label": "same"}

Row = tuple[str, object]
"""A text and its label."""


def rows(n: int, first: int = 0) -> list[Row]:
    """Return `n` rows of news whose texts begin at number `first`."""
    return [(f"text number {at}", TOPICS[at % 3]) for at in range(first, first + n)]


def table(given: list[Row], between: str = "\t", head: str = "text{}topic") -> str:
    """Return rows as lines of a file."""
    lines = [head.format(between), *(f"{text}{between}{label}" for text, label in given)]
    return "\n".join(lines) + "\n"


def read(task: str, **paths: Path) -> Dataset:
    """Read the files of a built-in task by split."""
    forms = dict.fromkeys(paths, BUILT_IN[task].format)
    return read_dataset({"task": task, "forms": forms, **BUILT_IN[task].reading}, paths)


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


def built(folder: Path, files: Mapping[str, str | bytes], entry: Mapping[str, Any]) -> Path:
    """Make the data set of files; return its folder."""
    planned = node(folder, files, entry)
    described = {**planned.describe(), "extra": planned.extra}
    make(job := Job(folder / "results", described, None, 1))
    return job.out


GOOD, DEV = table(rows(60)), table(rows(12, 200))
TWO = {"train": "t.tsv", "dev": "d.tsv"}
BOTH = NEWS | {"files": TWO}
