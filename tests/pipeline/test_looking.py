"""A plan only looks; what was deleted comes back, and a second workflow is refused."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from minbert.base.locks import exclusive_lock, results_lock
from minbert.commands.cli import main

from .edits import grid
from .project import PAPER, Project

pytestmark = pytest.mark.pipeline


def content(root: Path) -> dict[str, str]:
    """Return the hash and time of every file below a folder."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix not in {".db", ".db-wal", ".db-shm"}:
            hashed = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(root))] = f"{hashed} {path.stat().st_mtime_ns}"
    return found


def test_looking_changes_nothing(project: Project) -> None:
    before = content(project.root)
    grid("label: 1-bert", "label: one encoder")(project)
    words = ("device=cuda:7", "seeds=[0,1]", "scale={epochs: 0.1}")
    project.minbert("plan", "--config", *words)
    project.snakemake("-n", "all", "--config", *words)
    assert content(project.root) == before
    shutil.rmtree(project.root)
    project.snakemake("-n", "all")
    assert not project.root.exists()


def test_a_copied_folder_is_whole(project: Project) -> None:
    """As by `cp -r`, whose files are all new."""
    shutil.copytree(project.root, project.folder / "copy", copy_function=shutil.copyfile)
    project.configure(results="copy")
    assert project.jobs() == project.planned() == set()


def test_what_shows_results_comes_back(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain files that were deleted, and a plan and a description that were damaged."""
    project.snakemake("all")
    names = ("report.html", f"tables/{PAPER}.md", "variants.tsv", "tables/scores.parquet")
    before = [(project.root / name).read_bytes() for name in names]
    (record,) = (project.root / "store" / "plans").glob("*.json")
    described = project.root / "store" / "spec" / f"train-{project.key('sst-only')}.json"
    predict = ["predict", "sst-only", "a fine film .", "--results", str(project.root)]
    for path in (described, record):
        path.write_text("")
        with pytest.raises(SystemExit):
            main(predict)
        told = capsys.readouterr().err
        assert f"{path.name}: " in told and "snakemake all" in told
    assert project.jobs() == {"publish"}
    for name in names:
        (project.root / name).unlink()
    with exclusive_lock(project.root / "store" / "plans", "a workflow"):
        printed = project.snakemake("all", ends=1)
    assert "a workflow on results is already running" in printed
    with results_lock(project.root, alone=True):
        assert "`minbert gc`" in project.snakemake("all", ends=1)
    project.snakemake("all")
    assert [(project.root / name).read_bytes() for name in names] == before
    main(predict)
    assert "prediction" in capsys.readouterr().out


def test_one_row_asked_for_takes_no_others_off(project: Project) -> None:
    """Nor if it fails."""
    pages = project.tables()
    grid("lr: 1e-5", "lr: 1e30")(project)
    project.snakemake(project.target("sst-only", 0), ends=1)
    assert project.tables() == pages
