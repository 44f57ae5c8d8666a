"""What tests of the whole pipeline share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from pipeline.project import Project

from minbert.base.locks import exclusive_lock
from minbert.spec.task import TASKS

hypothesis.settings.register_profile("same for all", derandomize=True, deadline=None)
hypothesis.settings.load_profile("same for all")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Run the tiny grid once for all processes that test; nobody may change it."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    printed = folder / "finished" / "printed.txt"
    with exclusive_lock(folder / "making", "the tiny grid", 600):
        if not printed.exists():
            project = Project.make(printed.parent)
            printed.write_text(project.snakemake("all"), encoding="utf-8")
    return Project(printed.parent)


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Run in an empty folder, and leave the tasks as they were."""
    monkeypatch.chdir(tmp_path)
    before = TASKS.own
    yield
    TASKS.use(before)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a case of bytes by its place: they can hold a time, and cannot be read."""
    return argname if isinstance(val, bytes) else None
