"""The tasks: what is predicted, from one sentence or two, and how it is scored.

A new task is an entry in `TASKS` and a data set that fills its table (docs/adding.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["classification", "binary", "regression"]


@dataclass(frozen=True)
class Task:
    """One task. `low` and `high` bound the label; `classes` is the number of logits."""

    name: str
    kind: Kind
    classes: int
    pair: bool
    low: float
    high: float
    metric: Literal["accuracy", "pearson"]
    title: str


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("sst", "classification", 5, False, 0, 4, "accuracy", "SST"),
        Task("para", "binary", 1, True, 0, 1, "accuracy", "Paraphrase"),
        Task("sts", "regression", 1, True, 0, 5, "pearson", "STS"),
        Task("cfimdb", "classification", 2, False, 0, 1, "accuracy", "CFIMDB"),
        Task("lmrd", "classification", 5, False, 0, 4, "accuracy", "LMRD"),
    )
}


def task_facts(name: str) -> list[str | float | bool]:
    """Return what decides a task's results, to be part of a spec (its title is not)."""
    task = TASKS[name]
    return [task.kind, task.classes, task.pair, task.low, task.high, task.metric]
