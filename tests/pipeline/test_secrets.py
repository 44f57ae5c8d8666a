"""What the environment holds in confidence is in no file, log, param or tag."""

from __future__ import annotations

import sqlite3

import pytest

from .project import SECRET, Project

pytestmark = pytest.mark.pipeline


def holders(project: Project) -> list[str]:
    """Return the files that hold the secret."""
    files = [path for path in project.folder.rglob("*") if path.is_file()]
    assert len(files) > 100
    return [str(path) for path in files if SECRET.encode() in path.read_bytes()]


def test_a_run_leaves_no_secret(finished: Project) -> None:
    assert SECRET in finished.environment.values()
    assert holders(finished) == []
    with sqlite3.connect(finished.root / "mlflow.db") as store:
        tables = [name for (name,) in store.execute("select name from sqlite_master")]
        assert {"params", "tags", "experiment_tags"} <= set(tables)
        dump = "\n".join(store.iterdump())
    assert "minbert.key" in dump and SECRET not in dump
