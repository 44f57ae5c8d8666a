"""What cases on data of one's own leave as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from minbert.spec.task import TASKS


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Run in an empty folder, and leave the tasks as they were."""
    monkeypatch.chdir(tmp_path)
    before = TASKS.own
    yield
    TASKS.use(before)
