"""Entries of a task of one's own, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minbert.spec.config import Config, load_config
from minbert.spec.task import TASKS, Task

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
