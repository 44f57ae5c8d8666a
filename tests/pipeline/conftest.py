"""One finished run of the tiny grid, and copies of it to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from .project import Project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Run the tiny grid once; nobody may change it."""
    project = Project.make(tmp_path_factory.mktemp("pipeline") / "finished")
    (project.folder / "printed.txt").write_text(project.snakemake("all"), encoding="utf-8")
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """Return a copy of the finished run, without tracking."""
    copy = finished.copy(tmp_path / "project")
    copy.configure(tracking="{enabled: false}")
    return copy
