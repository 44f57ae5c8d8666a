"""Claims in the pipeline: what judging them runs, and what they say."""

from __future__ import annotations

import pytest

from .project import PAPER, Project

pytestmark = pytest.mark.pipeline

GRID = f"workflow/grids/{PAPER}.yaml"
CLAIMS = """
claims:
  - {text: Nothing is better., section: "5", variant: 3-bert, against: 1-bert, task: [overall, sst]}
  - {text: It learns., section: "5", variant: 1-bert, against: majority, task: para}
  - {text: It overfits., variant: 3-bert, against: 1-bert, task: para, measure: gap}
"""


def test_claims_run_alone_and_are_published(project: Project) -> None:
    grid = project.folder / GRID
    before = project.tables()
    grid.write_text(grid.read_text(encoding="utf-8") + CLAIMS, encoding="utf-8")
    assert project.jobs() == {"claims", "report", "publish"}
    project.snakemake("all")
    lines = project.table("claims")
    assert [(line["variant"], line["against"], line["task"]) for line in lines] == [
        ("3-bert", "1-bert", "normalised"),
        ("3-bert", "1-bert", "sst"),
        ("1-bert", "majority", "para"),
        ("3-bert", "1-bert", "para"),
    ]
    assert [line["measure"] for line in lines] == ["", "", "", "gap"]
    assert lines[3]["verdict"] == "cannot be judged"  # by one seed, if both have learned
    assert {line["paper"] for line in lines} == {PAPER}
    assert lines[0]["published_difference"] == "0.011"
    judged = [line for line in lines if line["p"]]
    assert judged[-1] == lines[2]  # so little training may leave the others at their floor
    assert all(float(line["low"]) <= float(line["difference"]) for line in judged)
    said = ("holds", "does not hold", "within noise", "cannot be judged")
    assert all(line["verdict"] in said for line in lines)
    made = project.tables()
    assert {name: made[name] for name in before} == before
    assert set(made) - set(before) == {"claims.csv", "claims.md", "claims.tex"}
