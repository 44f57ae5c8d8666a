"""A bundle of a finished run in a fresh folder: everything that is shown, without training."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from .edits import ALL, trains
from .project import Project, planned_jobs

pytestmark = pytest.mark.pipeline

UNTRAINED = ("train", "data", "tokens", "features", "backbone", "rows")


def figures(project: Project) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (project.root / "figures").rglob("*.png")}


def test_everything_shown_is_made_again_and_a_seed_goes_back(
    finished: Project, tmp_path: Path
) -> None:
    """A colleague shows my runs, trains a row with a further seed, and I get that."""
    finished.minbert("bundle", str(tmp_path / "mine.zip"), "--results", "results")
    theirs = Project(tmp_path / "theirs")
    left = shutil.ignore_patterns("results", ".snakemake", "__pycache__")
    shutil.copytree(finished.folder, theirs.folder, ignore=left)
    printed = theirs.minbert("unbundle", str(tmp_path / "mine.zip"), "--results", "results")
    assert "6 runs imported, 0 already there" in printed
    with zipfile.ZipFile(tmp_path / "mine.zip") as archive:
        archive.extract("config.json", theirs.folder)
    printed = theirs.snakemake("-n", "all", "--configfile", "config.json")
    asked = planned_jobs(printed, dict)
    assert "publish" in asked and not [job for job in asked if job.startswith(UNTRAINED)]

    theirs.snakemake("all")
    assert not [job for job in planned_jobs(theirs.log(), dict) if job.startswith(UNTRAINED)]
    assert theirs.tables() == finished.tables() and figures(theirs) == figures(finished)
    assert not list((theirs.root / "store").rglob("*.safetensors"))
    page = (theirs.root / "report.html").read_text("utf-8")
    assert "The texts of these tasks are not here" in page

    imported = theirs.trained()
    theirs.configure(seeds="[0, 1]", tracking="{enabled: false}")
    assert {job for job in theirs.jobs() if job.startswith("train ")} == trains(ALL, 1)
    theirs.snakemake(theirs.target("sst-only", 1))
    assert theirs.trained().items() >= imported.items()
    theirs.minbert("bundle", str(tmp_path / "theirs.zip"), "--seeds", "1")
    mine = finished.copy(tmp_path / "mine")
    printed = mine.minbert("unbundle", str(tmp_path / "theirs.zip"))
    assert "1 run imported, 0 already there" in printed
    mine.configure(seeds="[0, 1]", tracking="{enabled: false}")
    assert {job for job in mine.jobs() if job.startswith("train ")} == trains(ALL - {"sst-only"}, 1)
