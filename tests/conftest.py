"""What tests of the whole pipeline share."""

from __future__ import annotations

import pytest
from pipeline.project import Project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Run the tiny grid once; nobody may change it."""
    project = Project.make(tmp_path_factory.mktemp("pipeline") / "finished")
    (project.folder / "printed.txt").write_text(project.snakemake("all"), encoding="utf-8")
    return project
