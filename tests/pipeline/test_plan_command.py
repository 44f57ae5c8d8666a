"""`minbert plan` and the help texts, as a person meets them."""

from __future__ import annotations

import pytest

from .project import PAPER, Project

pytestmark = pytest.mark.pipeline

GRID = f"workflow/grids/{PAPER}.yaml"


def rows(printed: str) -> dict[str, str]:
    """Return {variant: its line} of a plan."""
    return {line.split()[0]: line for line in printed.splitlines() if line.strip()}


def test_plan_says_what_is_done_and_what_would_run_and_why(project: Project) -> None:
    done = rows(project.minbert("plan"))
    assert " done " in done["1-bert"]
    assert "6 training jobs, 0 to run" in done["6"]

    project.edit(GRID, "    label: 1-bert\n", "    label: 1-bert\n    optimiser: {lr: 2e-5}\n")
    project.edit("src/minbert/train/frozen_probe.py", '"""', '"""Now: ')
    with (project.folder / "src/minbert/train/finetune.py").open("a", encoding="utf-8") as file:
        file.write("\n\nEXTRA = 1\n")
    printed = project.minbert("plan", "--config", "seeds=[0,1]")
    told = rows(printed)
    assert "0 of 2 seeds" in told["1-bert"]
    assert "optimiser.lr: 0.0005 -> 0.001" in told["1-bert"]
    assert "code of train.finetune changed" in told["3-bert"]
    assert "1 of 2 seeds" in told["baseline"] and "not run: seed 1" in told["baseline"]
    assert "12 training jobs, 11 to run" in told["6"]
    assert "GPU-hours" in printed
    parameters = int(told["1-bert"].split("seeds")[1].split()[0].replace(",", ""))
    assert 100_000 < parameters < 1_000_000
