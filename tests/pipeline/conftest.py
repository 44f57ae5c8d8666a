"""Copies of the finished run of the tiny grid, to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from .project import Project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """Return a copy of the finished run, without tracking."""
    copy = finished.copy(tmp_path / "project")
    copy.configure(tracking="{enabled: false}")
    return copy
