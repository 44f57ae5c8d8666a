"""Jobs that fail, or end with their workflow, and the weights that they need no longer."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from minbert.store.node import KINDS

from .edits import FIGURE, GRID, SHOWN
from .project import PAPER, Project, wait_for

pytestmark = pytest.mark.pipeline

NEW_SEED = 7
FAULTY = """\
def curves(options: Curves, inputs: Inputs) -> Drawn:
    raise ValueError("no ink")


def plotted("""


def ended(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent to read its status."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def test_a_job_ends_with_its_killed_workflow_and_goes_on_in_the_next(project: Project) -> None:
    project.configure(scale="{learning_rate: 50, epochs: 3}")
    target = project.target("sst-only", NEW_SEED)
    words = ("snakemake", "--cores", "1", target)
    workflow = project.start(*words)
    begun = f"*-s{NEW_SEED}-*.jsonl"
    wait_for(lambda: any((project.root / "tracking").glob(begun)), "no training begins")
    (log,) = (project.root / "tracking").glob(begun)
    pid = int(log.stem.rpartition("-")[2])
    os.kill(pid, signal.SIGSTOP)
    workflow.kill()
    workflow.wait(600)
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: ended(pid), "the orphan goes on")
    workflow.communicate(timeout=600)
    assert not (project.folder / target).exists()
    assert "signal 15" in log.read_text("utf-8")

    assert "--unlock" in project.run(*words, ends=1)
    project.run("snakemake", "--unlock")
    project.run(*words)
    assert (project.folder / target).exists()
    said = project.root / "logs" / "train" / f"{project.key('sst-only')}-seed{NEW_SEED}.log"
    assert "resuming after step" in said.read_text("utf-8")


def test_a_failing_row_does_not_stop_the_others(project: Project) -> None:
    trained = project.trained()
    rate = "    optimiser: {lr: 1e+30}\n"
    project.edit(GRID, "    label: 1-bert\n", f"    label: 1-bert\n{rate}")
    project.edit(GRID, "    label: SST alone\n", "    label: SST alone\n    max_length: 64\n")
    printed = project.snakemake("all", ends=1)
    told = [line for line in printed.splitlines() if "minbert: the loss of task" in line]
    assert told and "at step" in told[0] and "batch ids: " in told[0] and "optimiser.lr" in told[0]
    assert "Traceback" not in printed
    log = project.root / "logs" / "train" / f"{project.key('1-bert')}-seed0.log"
    assert told[0].strip() in log.read_text("utf-8")
    assert (project.seed_folder("sst-only") / "run.json").exists()
    assert project.trained().items() >= trained.items()
    status = {row["variant"]: row for row in project.table(PAPER)}
    assert {name: row["status"] for name, row in status.items()} == {
        **dict.fromkeys(project.variants().values(), "scored"),
        "1-bert": "failed",
    }
    assert "at step" in status["1-bert"]["reason"] and not status["1-bert"]["sst_mean"]
    index = {(row["paper"], row["variant"]): row["status"] for row in project.table("index")}
    assert index[PAPER, "1-bert"] == "failed" and index[PAPER, "3-bert"] == "scored"
    assert index[PAPER, "sequential"] == "not configured"
    assert re.search(r"\n\d+ of \d+ jobs done in .* \| 1 failed\n", printed)
    assert "hybrid-bert: 1-bert failed" in printed
    scores = pq.read_table(project.root / "tables" / "scores.parquet")
    assert "1-bert" not in scores["variant"].to_pylist()
    report = (project.root / "report.html").read_text("utf-8")
    assert f"{PAPER} / 1-bert: stage" in report and "4 of 12 published rows scored" in report
    assert "seed 0 failed: " in project.minbert("plan")
    assert project.jobs() == {"train 1-bert 0"} | SHOWN

    project.edit(GRID, rate, "")
    project.snakemake("all")
    assert {row["status"] for row in project.table(PAPER)} == {"scored"}


def test_a_figure_that_fails_says_so_and_is_tried_again(project: Project) -> None:
    project.edit("src/minbert/figures/curves.py", "def curves(", FAULTY)
    picture = project.root / "figures" / PAPER / "multitask-loss.png"
    printed = project.snakemake("all", ends=1)
    assert f"figures/{PAPER}/multitask-loss: not drawn: ValueError: no ink" in printed
    with Image.open(picture) as image:
        assert "no ink" in image.info["Description"]
    report = (project.root / "report.html").read_text("utf-8")
    assert "Figures that could not be drawn." in report
    assert project.jobs() == FIGURE
    project.edit("src/minbert/figures/curves.py", FAULTY, "def curves(")
    project.snakemake("all")
    with Image.open(picture) as image:
        assert "no ink" not in image.info["Description"]


SMALL = """\
paper: small
title: A stage that starts from another
overall: normalised
variants:
  one: {tasks: {sst: {loss: cross_entropy}}, epochs: 20}
  two: {extends: one, start: one}
"""


def test_weights_go_when_nobody_needs_them(project: Project) -> None:
    (project.folder / "workflow/grids/small.yaml").write_text(SMALL, encoding="utf-8")
    project.configure(keep_weights="false", grids="[small]")
    project.snakemake("all")
    for variant in ("one", "two"):
        left = {path.name for path in project.seed_folder(variant).iterdir()}
        assert left == set(KINDS["train"].outputs) - {"model.safetensors"}
    assert "2 training jobs, 0 to run" in project.minbert("plan")
    project.configure(keep_weights="true")
    assert project.jobs() == set()
