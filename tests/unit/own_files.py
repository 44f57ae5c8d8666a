"""Entries and files of a task of one's own, for tests."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from minbert.data.dataset import make
from minbert.plan.sources import Sources
from minbert.spec.config import Config, load_config
from minbert.spec.task import TASKS, Task
from minbert.store.job import Job
from minbert.store.node import Node

TOPICS = ("world", "sports", "business")
NEWS = {"kind": "classification", "classes": list(TOPICS), "sentence1": "text", "label": "topic"}
SCORE = {"kind": "regression", "range": [0, 10], "sentence1": "text", "label": "topic"}
TWO = {"train": "t.tsv", "dev": "d.tsv"}
BOTH = NEWS | {"files": TWO}


def configured(folder: Path, entry: Mapping[str, Any], name: str = "news") -> Config:
    """Return a configuration with a task of one's own, and use the task."""
    told = {"grids": ["g"], "data": "builtin", "backbone": "builtin", "tasks": {name: entry}}
    config = load_config({**told, "results": str(folder / "results")})
    TASKS.use(Task.of(*entry) for entry in config.tasks.items())
    return config


Files = Mapping[str, str | bytes]
"""Files by name."""


def rows(n: int, first: int = 0) -> str:
    """Return `n` lines of news whose texts begin at number `first`."""
    numbers = range(first, first + n)
    return "".join(f"text number {at}\t{TOPICS[at % len(TOPICS)]}\n" for at in numbers)


HEAD = "text\ttopic\n"
GOOD, DEV = HEAD + rows(60), HEAD + rows(12, 2000)


def frame(n: int) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(HEAD + rows(n)), sep="\t")


def as_json(n: int) -> str:
    return frame(n).to_json(orient="records", lines=True)


def node(folder: Path, files: Files, entry: Mapping[str, Any]) -> Node:
    """Write files, and return the planned node of the task that they are of."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    config = configured(folder, entry)
    config = config.model_copy(update={"results": str(folder / "results")})
    return Sources(config, Path(__file__).parents[2]).data("news")


def job(folder: Path, planned: Node) -> Job:
    """Return the job that makes a planned node."""
    return Job(folder / "results", {**planned.describe(), "extra": planned.extra}, None, 1)


def built(folder: Path, files: Files, entry: Mapping[str, Any] = BOTH) -> Path:
    """Make the data set of files; return its folder."""
    made = job(folder, node(folder, {"t.tsv": GOOD, "d.tsv": DEV, **files}, entry))
    make(made)
    return made.out
