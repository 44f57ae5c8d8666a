"""Tasks of one's own for tests: their entries, and a process that has them for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from minbert.spec.task import TASKS, Task, TaskEntry

COLUMNS = {"sentence1": "a", "label": "label", "files": "x"}


def own(name: str, **entry: Any) -> Task:
    """Return a task of one's own; columns are filled in."""
    return Task.of(name, TaskEntry(**(COLUMNS | entry)))


NEWS = own("news", kind="classification", classes=["world", "sports", "business"], title="News")
SAME = own("same", kind="binary", metric="f1", sentence2="b")
MACRO = own("macro", kind="classification", classes=4, metric="macro_f1")
COLA = own("cola", kind="binary", metric="matthews")
MOOD = own("mood", kind="classification", classes=3, metric="matthews")
RANK = own("rank", kind="regression", range=[0, 10], metric="spearman")
ALL = (NEWS, SAME, MACRO, COLA, MOOD, RANK)


@contextmanager
def using(*tasks: Task) -> Iterator[Mapping[str, Task]]:
    """Use `tasks` besides the built-in ones; afterwards those of before."""
    before = TASKS.own
    TASKS.use(tasks)
    try:
        yield TASKS
    finally:
        TASKS.use(before)
