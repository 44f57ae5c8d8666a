"""A bundle of a finished run in a fresh folder: everything that is shown, without training."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import zipfile
from pathlib import Path

import pytest

from .project import PAPER, Project, planned_jobs

pytestmark = pytest.mark.pipeline

SHOWN = """\
figures:
  scores-ranked: {kind: ranking, title: From best to worst}
"""
UNTRAINED = {"train", "data", "tokens", "features", "backbone", "rows"}


@pytest.fixture(scope="module")
def whole(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Add figures that read the data's rows to the finished run."""
    project = finished.copy(tmp_path_factory.mktemp("bundle") / "whole")
    project.configure(tracking="{enabled: false}")
    project.edit(f"workflow/grids/{PAPER}.yaml", "figures:\n", SHOWN)
    project.snakemake("all")
    project.minbert("bundle", "runs.zip", "--results", "results")
    return project


@pytest.fixture
def fresh(whole: Project, tmp_path: Path) -> Project:
    """Return the workflow in a new folder, with nothing but what the bundle has."""
    ignored = ("results", ".snakemake", "runs.zip")
    shutil.copytree(
        whole.folder, tmp_path / "fresh", ignore=shutil.ignore_patterns(*ignored, "__pycache__")
    )
    project = Project(tmp_path / "fresh")
    printed = project.minbert("unbundle", str(whole.folder / "runs.zip"), "--results", "results")
    assert "6 runs imported, 0 already there" in printed
    return project


def rules(project: Project) -> set[str]:
    """Return the rules that Snakemake would run."""
    return {job.partition(" ")[0] for job in project.jobs()}


def cpu() -> float:
    """Return the seconds of CPU that commands took so far, which other work does not lengthen."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figures(project: Project) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (project.root / "figures").rglob("*.png")}


def in_mlflow(project: Project) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the names of the rows in MLflow, and key and status of the runs below them."""
    with sqlite3.connect(project.root / "mlflow.db") as store:
        rows = dict(
            store.execute(
                "select r.run_uuid, r.name from runs r join tags t on t.run_uuid = r.run_uuid"
                " where t.key = 'minbert.kind' and t.value = 'row'"
            )
        )
        runs = store.execute(
            "select p.value, k.value, r.status from runs r"
            " join tags p on p.run_uuid = r.run_uuid and p.key = 'mlflow.parentRunId'"
            " join tags k on k.run_uuid = r.run_uuid and k.key = 'minbert.key'"
        ).fetchall()
    assert {parent for parent, *_ in runs} <= rows.keys()
    return set(rows.values()), {(key, status) for _, key, status in runs}


def test_everything_shown_is_made_again_without_training(whole: Project, fresh: Project) -> None:
    own = (fresh.folder / "config.yaml").rename(fresh.folder / "own.yaml")
    with zipfile.ZipFile(whole.folder / "runs.zip") as archive:
        archive.extract("config.json", fresh.folder)
    printed = fresh.snakemake("-n", "all", "--configfile", "config.json")
    asked = {job.partition(" ")[0] for job in planned_jobs(printed, dict)}
    assert "publish" in asked and asked.isdisjoint(UNTRAINED)
    own.rename(fresh.folder / "config.yaml")

    fresh.configure(tracking="{enabled: true}")
    assert rules(fresh).isdisjoint(UNTRAINED), fresh.jobs()
    before = cpu()
    fresh.snakemake("all")
    assert cpu() - before < 60
    assert fresh.tables() == whole.tables()
    assert figures(fresh) == figures(whole) and len(figures(fresh)) == 2
    assert not list((fresh.root / "store").rglob("*.safetensors"))
    page = (fresh.root / "report.html").read_text("utf-8")
    assert "The texts of these tasks are not here" in page
    assert fresh.jobs() == set(), "and nothing is left to run"
    rows, runs = in_mlflow(fresh)
    assert rows == {row["variant"] for row in fresh.table(PAPER) if row["status"] == "scored"}
    assert runs == {(key, "FINISHED") for key in fresh.variants()}

    for kind in ("data", "report"):
        shutil.rmtree(fresh.root / "store" / kind)
    (fresh.root / "report.html").unlink()
    assert rules(fresh) == {"data", "report", "publish"}
    fresh.snakemake("all")
    page = (fresh.root / "report.html").read_text("utf-8")
    assert "The texts of these tasks are not here" not in page


def test_a_colleagues_seed_joins_mine(whole: Project, fresh: Project) -> None:
    """They train what is missing alone, on data made after my runs came in, and newer than these.

    Then their runs join mine, and tables have both seeds.
    """
    mine = fresh.trained()
    fresh.configure(seeds="[0, 1]")
    variants = set(fresh.variants().values())
    new = {job for job in fresh.jobs() if job.startswith("train ")}
    assert new == {f"train {variant} 1" for variant in variants}
    fresh.snakemake(*(fresh.target(variant, 1) for variant in variants))
    assert (fresh.root / "store" / "data").stat().st_mtime_ns > max(mine.values())
    assert fresh.trained().items() >= mine.items()
    assert not any(job.startswith("train ") for job in fresh.jobs())

    fresh.minbert("bundle", "theirs.zip", "--seeds", "1")
    mine = whole.trained()
    printed = whole.minbert("unbundle", str(fresh.folder / "theirs.zip"))
    assert "6 runs imported, 0 already there" in printed
    whole.configure(seeds="[0, 1]")
    assert rules(whole).isdisjoint(UNTRAINED)
    assert whole.trained().items() >= mine.items()
    whole.snakemake("all")
    assert {row["seeds"] for row in whole.table(PAPER) if row.get("seeds")} == {"2"}
