"""Tasks of one's own for tests: their entries."""

from __future__ import annotations

from typing import Any

from minbert.spec.task import Task, TaskEntry

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
