"""The grid `tuned-sum` on the tiny corpus: every method trained, tuned alike, chosen and shown."""

from __future__ import annotations

import re
import shutil

import pytest

from .project import Project, planned_jobs

pytestmark = pytest.mark.pipeline

GRID = "workflow/grids/tuned-sum.yaml"
METHODS = ("plain-sum", "pcgrad", "cagrad", "nash-mtl", "upgrad", "uncertainty", "random-weights")
SHOWN = {"tuning", "scores", "table", "figure", "index", "claims", "report", "publish"}


def test_the_grid_runs_and_an_edit_of_the_search_trains_what_is_new(project: Project) -> None:
    project.configure(grids="[tuned-sum]")
    project.edit(GRID, "[5e-6, 1e-5, 2e-5, 4e-5]", "[1e-5, 2e-5]")  # each takes seconds
    project.snakemake("all")
    jobs = planned_jobs(project.log(), project.variants)
    tried = {f"{name}.lr-{lr}" for name in METHODS for lr in ("1e-5", "2e-5")}
    assert {job for job in jobs if job.startswith("train ")} == {f"train {n} 0" for n in tried}
    assert jobs >= SHOWN

    rows = project.table("tuned-sum")
    assert [(row["variant"], row["split"]) for row in rows] == [
        (name, split) for name in METHODS for split in ("dev", "test")
    ]
    assert {(row["status"], row["runs_done"], row["runs_wanted"]) for row in rows} == {
        ("scored", "2", "2")
    }
    chosen = {line["variant"]: line for line in project.table("tuned-sum.tuning") if line["chosen"]}
    assert list(chosen) == list(METHODS)
    for row in rows:
        line = chosen[row["variant"]]
        assert (row["settings"], row["keys"]) == (line["settings"], line["keys"])
    claims = project.table("claims")
    assert [(line["variant"], line["against"]) for line in claims] == [
        ("plain-sum", name) for name in METHODS[1:]
    ]
    assert "not run" not in {line["verdict"] for line in claims}
    assert (project.root / "figures" / "tuned-sum" / "ranking.pdf").stat().st_size
    page = (project.root / "report.html").read_text("utf-8")
    assert "Uncertainty weighting" in page and re.search(r">lr [12]e-5<", page)
    assert "tuned: the best of 2 settings, 2 runs; chosen: lr " in project.minbert("plan")
    command = ("predict", "plain-sum", "--task", "sst", "Fine.")
    assert "sst from 'plain-sum.lr-" in project.minbert(*command)

    project.edit(GRID, "label: PCGrad", "label: PCGrad\n    tune: {optimiser.lr: [2e-5, 3e-5]}")
    assert project.jobs() == {"train pcgrad.lr-3e-5 0"} | SHOWN

    shutil.rmtree(project.root / "store" / "train" / chosen["cagrad"]["keys"])
    project.minbert("publish", "--plan", project.plan())
    (cagrad,) = (
        r for r in project.table("tuned-sum") if r["row"] == "CAGrad" and r["split"] == "dev"
    )
    assert (cagrad["status"], cagrad["runs_done"]) == ("scored", "1")
    assert cagrad["keys"] != chosen["cagrad"]["keys"], "the other setting is all there is"
