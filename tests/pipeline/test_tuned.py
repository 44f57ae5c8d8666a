"""Two rows of the grid `tuned-sum` on the tiny corpus: trained, tuned alike, chosen and shown."""

from __future__ import annotations

import re
import shutil

import pytest

from .project import Project, planned_jobs

pytestmark = pytest.mark.pipeline

GRID = "workflow/grids/tuned-sum.yaml"
METHODS = ("plain-sum", "pcgrad")
SHOWN = {"tuning", "scores", "table", "figure", "index", "claims", "report", "publish"}


def test_the_grid_runs_and_an_edit_of_the_search_trains_what_is_new(project: Project) -> None:
    path = project.folder / GRID
    rows, _, shown = path.read_text("utf-8").partition("  cagrad:\n")
    claims = "figures:\n" + shown.partition("figures:\n")[2]
    first = claims.partition("  - text: A tuned plain sum matches or improves upon CAGrad.")[0]
    path.write_text(rows + first, encoding="utf-8")
    project.edit(GRID, "[5e-6, 1e-5, 2e-5, 4e-5]", "[1e-5, 2e-5]")
    project.configure(grids="[tuned-sum]")
    project.snakemake("all")
    jobs = planned_jobs(project.log(), project.variants)
    tried = {f"{name}.lr-{lr}" for name in METHODS for lr in ("1e-5", "2e-5")}
    assert {job for job in jobs if job.startswith("train ")} == {f"train {n} 0" for n in tried}
    assert jobs >= SHOWN

    lines = project.table("tuned-sum")
    assert [(row["variant"], row["split"]) for row in lines] == [
        (name, split) for name in METHODS for split in ("dev", "test")
    ]
    assert {(row["status"], row["runs_done"], row["runs_wanted"]) for row in lines} == {
        ("scored", "2", "2")
    }
    chosen = {line["variant"]: line for line in project.table("tuned-sum.tuning") if line["chosen"]}
    assert list(chosen) == list(METHODS)
    for row in lines:
        line = chosen[row["variant"]]
        assert (row["settings"], row["keys"]) == (line["settings"], line["keys"])
    (claim,) = project.table("claims")
    assert (claim["variant"], claim["against"]) == METHODS and claim["verdict"] != "not run"
    assert (project.root / "figures" / "tuned-sum" / "ranking.pdf").stat().st_size
    assert re.search(r">lr [12]e-5<", (project.root / "report.html").read_text("utf-8"))
    assert "tuned: the best of plain-sum.lr-" in project.minbert("plan")
    command = ("predict", "plain-sum", "--task", "sst", "Fine.")
    assert "sst from 'plain-sum.lr-" in project.minbert(*command)

    project.edit(GRID, "label: PCGrad", "label: PCGrad\n    tune: {optimiser.lr: [2e-5, 3e-5]}")
    assert project.jobs() == {"train pcgrad.lr-3e-5 0"} | SHOWN

    for path in (f"train/{chosen['pcgrad']['keys']}", "scores", "tuning", "table"):
        shutil.rmtree(project.root / "store" / path)
    project.minbert("publish-partial", "--plan", project.plan())
    pcgrad, _ = (row for row in project.table("tuned-sum") if row["row"] == "PCGrad")
    assert (pcgrad["status"], pcgrad["runs_done"]) == ("scored", "1")
    assert pcgrad["keys"] != chosen["pcgrad"]["keys"], "the other setting is all there is"
