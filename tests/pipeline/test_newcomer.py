"""What docs/adding.md tells a newcomer to do, followed to the end."""

from __future__ import annotations

import re

import pytest

from .project import CHECKOUT, PAPER, Project, planned_jobs
from .test_run import check_store

pytestmark = pytest.mark.pipeline


def blocks(language: str) -> list[str]:
    """Return the examples in a language of the page's section on parts."""
    text = (CHECKOUT / "docs" / "adding.md").read_text(encoding="utf-8")
    section = text.partition("\n## A head, loss")[2]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def test_a_head_and_a_row_of_ones_own(project: Project) -> None:
    module, line = blocks("python")
    grid = blocks("yaml")[-1]
    assert len(grid.splitlines()) <= 5 and len(line.splitlines()) == 1
    (project.folder / "src/minbert/model/heads/normed.py").write_text(module, encoding="utf-8")
    project.edit("src/minbert/spec/parts.py", '    "head": {\n', '    "head": {\n' + line)
    (project.folder / "workflow/grids/normed.yaml").write_text(grid, encoding="utf-8")
    project.configure(grids=f"[{PAPER}, normed]", tracking="{enabled: true}")
    project.snakemake("all")
    jobs = planned_jobs(project.log(), project.variants)
    assert jobs == {"train hybrid-bert-normed 0", "scores", "table", "index", "report", "publish"}
    (row,) = [r for r in project.table(PAPER) if r["variant"] == "hybrid-bert-normed"]
    assert row["status"] == "scored" and row["table"] == "" and row["parameters"] == ""
    assert "hybrid-bert-normed" in (project.root / "tables" / f"{PAPER}.md").read_text("utf-8")
    check_store(project, [project.seed_folder("hybrid-bert-normed")])
