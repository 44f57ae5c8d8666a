"""What docs/adding.md tells a newcomer to do, followed to the end."""

from __future__ import annotations

import csv
import json
import re
import shlex

import pytest

from .project import CHECKOUT, PAPER, Project
from .test_run import check_store

pytestmark = pytest.mark.pipeline

TEXT = (CHECKOUT / "docs" / "adding.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("\n## Your own part\n")[2]
MODULE = re.compile(r"`(src/[^`]+\.py)`[^\n]*\n(?:[^\n]+\n)*\n```python\n(.*?)^```$", re.M | re.S)
WHERE = r"`(PARTS|_LOSSES|ONE_TASK)`(?: in `([^`]+)`)?(?:, under `(\w+)`)?"
LINE = re.compile(rf"^- {WHERE}: `(.+)`$", re.MULTILINE)


def test_parts_and_rows_of_ones_own(project: Project) -> None:
    modules = dict(MODULE.findall(SECTION))
    assert len(modules) == SECTION.count("```python\n") == 6
    for path, module in modules.items():
        (project.folder / path).write_text(module, encoding="utf-8")
    lines = LINE.findall(SECTION)
    assert len(lines) == 8
    for name, path, kind, line in lines:
        places = {
            "PARTS": f'    "{kind}": {{\n',
            "_LOSSES": f'    "{kind}": {{',
            "ONE_TASK": "ONE_TASK = frozenset({",
        }
        place = places[name]
        project.edit(path or "src/minbert/spec/parts.py", place, f"{place}{line} ")
    (grid,) = re.findall(r"^```yaml\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    (project.folder / "workflow/grids/parts.yaml").write_text(grid, encoding="utf-8")
    project.configure(grids=f"[{PAPER}, parts]", tracking="{enabled: true}")
    project.snakemake("all")
    rows = [f"{PAPER}-parts", f"{PAPER}-shuffled"]
    found = {row["variant"]: row for row in project.table(PAPER)}
    for row in rows:
        assert found[row]["status"] == "scored" and found[row]["table"] == ""
        assert row in (project.root / "tables" / f"{PAPER}.md").read_text("utf-8")
    assert found[rows[0]]["parameters"] == "" and found[rows[1]]["parameters"]
    # By the published list, as the parts are in the copy's code alone.
    with (project.root / "variants.tsv").open(encoding="utf-8", newline="") as listed:
        keys = {row["variant"]: row["key"] for row in csv.DictReader(listed, delimiter="\t")}
    check_store(project, [project.root / "store" / "train" / keys[row] / "seed0" for row in rows])


def test_the_first_hour(project: Project) -> None:
    """The commands of the page, but for the server, on the tiny grid in place of the demo's."""
    section = TEXT.partition("\n## A variant\n")[2].partition("\n### ")[0]
    grid, config, block = re.findall(r"^```(?:yaml)?\n(.*?)^```$", section, re.M | re.S)
    (project.folder / "workflow/grids/depth.yaml").write_text(grid, encoding="utf-8")
    (project.folder / "depth.yaml").write_text(config, encoding="utf-8")
    lines = block.replace("workflow/overlays/demo.yaml", "config.yaml").splitlines()
    words = [shlex.split(line, comments=True) for line in lines if " ui " not in line]
    plan, _, compared, predicted, on_gpu = (project.run(*command) for command in words)
    assert "hybrid-bert-embeddings" in plan and "hybrid-bert-embeddings" in on_gpu
    assert (project.folder / "results/depth/only/report.html").exists()
    assert "shared_layers" in compared and json.loads(predicted)["task"] == "sst"
