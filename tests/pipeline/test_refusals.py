"""What is wrong in a configuration or grid is told before any job starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .edits import GRID, grid
from .project import Project

pytestmark = pytest.mark.pipeline


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    """Return a project in which nothing has run."""
    return Project.make(tmp_path / "project")


def test_a_mistake_is_told_before_any_job(fresh: Project) -> None:
    grid("surgery: pcgrad", "surgery: pcgard")(fresh)
    printed = fresh.snakemake("all", ends=1)
    for word in (GRID, "'variants.1-bert.surgery'", "pcgard", "Did you mean 'pcgrad'?"):
        assert word in printed
    assert "Traceback" not in printed
    assert len(printed.splitlines()) < 12, printed
    assert not (fresh.root / "store" / "data").exists()


def test_a_store_that_can_be_none_is_told_before_any_job(fresh: Project) -> None:
    uri = "mysql://me:secret@127.0.0.1:9/runs"
    words = [f"MLFLOW_TRACKING_URI={uri}", "snakemake", "--cores", "2", "all"]
    printed = fresh.run("env", *words, ends=1)
    assert f"no run can be stored at '{uri.replace('me:secret', '***')}'" in printed
    assert "Traceback" not in printed
    assert not (fresh.root / "store" / "data").exists()
    assert not (fresh.folder / "runs").exists()


def test_the_plan_and_snakemake_read_one_yaml(fresh: Project) -> None:
    project = fresh
    # In YAML 1.1 these are 8, 10 and 90.
    project.configure(seeds="010", course="1_0", lmrd="1:30")
    profile = project.folder / "mine"
    profile.mkdir()
    (profile / "config.yaml").write_text("configfile: [over.yaml, last.yaml]\n")
    (project.folder / "over.yaml").write_text("scale: {epochs: 010, learning_rate: 2}\n")
    (project.folder / "last.yaml").write_text("scale: {learning_rate: 1_0.0}\n")
    given = ["--config", "override={max_length: 011}", "scale={learning_rate: 0.5}"]
    run = project.snakemake("-n", "all", "--workflow-profile", "mine", *given)
    plan = project.minbert("plan", "--configfile", "over.yaml", "last.yaml", *given)
    found = {(key, seed) for key, seed in re.findall(r"wildcards: key=(\w+), seed=(\d+)", run)}
    keys = set(re.findall(r"/?main +([0-9a-f]{16}) ", plan))
    assert found and {seed for _, seed in found} == {"10"}
    assert {key for key, _ in found} == keys

    (project.folder / "last.yaml").write_text("scale:\n  epochs: 1\n  epochs: 2\n")
    for command in ("snakemake -n all", "minbert plan"):
        printed = project.run(*command.split(), "--configfile", "last.yaml", ends=None)
        assert "last.yaml, line 3, column 3: duplicate key 'epochs'" in printed
        assert "Traceback" not in printed
