"""Jobs that fail, are killed, or meet another of their kind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from minbert.base.locks import results_lock
from minbert.store.kinds import KINDS
from minbert.track.journal import newest_attempts

from .project import PAPER, Project, wait_for

pytestmark = pytest.mark.pipeline

GRID = f"workflow/grids/{PAPER}.yaml"
NEW_SEED = 7
FAULTY = """\
def curves(options: Curves, inputs: Inputs) -> Drawn:
    raise ValueError("no ink")


def plotted("""


@pytest.fixture
def slow(project: Project) -> Project:
    """Return the project with longer trainings, planned, so that one can be met as it runs."""
    project.configure(scale="{learning_rate: 50, epochs: 3}")
    project.describe()
    return project


def holder(project: Project, key: str) -> int:
    """Wait until a training holds its lock and has begun; stop it there and return its process."""
    lock = project.root / "work" / key / f"seed{NEW_SEED}" / "lock"
    wait_for(lambda: lock.exists() and " on " in lock.read_text("utf-8"), f"nobody holds {lock}")
    pid = int(lock.read_text("utf-8").split()[0])
    begun = project.root / "tracking"
    wait_for(lambda: any(begun.glob(f"*-s{NEW_SEED}-{pid}")), f"{pid} does not begin")
    os.kill(pid, signal.SIGSTOP)
    return pid


def ended(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent to read its status."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def test_a_training_that_runs_is_not_started_again(slow: Project) -> None:
    key = slow.key("sst-only")
    words = ("minbert", "train", key, "--seed", str(NEW_SEED))
    first = slow.start(*words)
    pid = holder(slow, key)
    try:
        printed = slow.run(*words, ends=2)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert pid == first.pid
    assert f"is already running (process {pid} on {os.uname().nodename}" in printed
    assert "Traceback" not in printed
    first_printed, _ = first.communicate(timeout=120)
    assert first.returncode == 0, first_printed
    out = slow.seed_folder("sst-only", NEW_SEED)
    assert {path.name for path in out.iterdir()} == set(KINDS["train"].outputs)


def test_a_killed_job_is_made_again(slow: Project) -> None:
    trained = slow.trained()
    target = slow.target("sst-only", NEW_SEED)
    words = ("snakemake", "--cores", "1", target)
    workflow = slow.start(*words)
    os.kill(holder(slow, slow.key("sst-only")), signal.SIGKILL)
    printed, _ = workflow.communicate(timeout=120)
    assert workflow.returncode == 1, printed
    assert not (slow.folder / target).exists()

    slow.run(*words)
    assert (slow.folder / target).exists()
    rows = pq.read_table((slow.folder / target).with_name("history.parquet")).num_rows
    assert rows > 5
    assert slow.trained().items() >= trained.items()


def test_a_job_ends_with_its_killed_workflow(slow: Project) -> None:
    target = slow.target("sst-only", NEW_SEED)
    words = ("snakemake", "--cores", "1", target)
    workflow = slow.start(*words)
    pid = holder(slow, slow.key("sst-only"))
    workflow.kill()
    workflow.wait(60)
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: ended(pid), "the orphan goes on")
    workflow.communicate(timeout=60)
    assert not (slow.folder / target).exists()
    (attempt,) = (slow.root / "tracking").glob(f"*-s{NEW_SEED}-{pid}")
    assert "signal 15" in (attempt / "end.json").read_text("utf-8")

    assert "--unlock" in slow.run(*words, ends=1)
    slow.run("snakemake", "--unlock")
    slow.run(*words)
    assert (slow.folder / target).exists()


def test_a_job_told_to_stop_goes_on_where_it_was(slow: Project) -> None:
    key, seed = slow.key("1-bert"), str(NEW_SEED)
    out = slow.root / "store" / "train" / key / f"seed{seed}"
    words = ("minbert", "train", key, "--seed", seed, "--results", str(slow.root))
    job = slow.start(*words)
    work = slow.root / "work" / key / f"seed{seed}"
    wait_for(lambda: any(work.glob("state-*.pt")), "no epoch is saved")
    job.send_signal(signal.SIGTERM)
    asked = time.monotonic()
    printed, _ = job.communicate(timeout=60)
    assert time.monotonic() - asked < 10
    assert job.returncode != 0 and "stopped by signal 15" in printed and "Traceback" not in printed
    assert newest_attempts(slow.root)[key, seed].status == "KILLED"
    assert any(work.glob("state-*.pt")) and not (out / "run.json").exists()
    printed = slow.run(*words)
    assert "resuming after step" in printed
    first = {
        name: (out / name).read_bytes() for name in ("model.safetensors", "predictions.parquet")
    }
    assert not any(work.glob("state-*.pt"))
    shutil.rmtree(out)
    assert "going on" not in slow.run(*words)
    assert first == {name: (out / name).read_bytes() for name in first}


def test_a_workflow_that_is_interrupted_fails_no_row(slow: Project) -> None:
    """Ctrl-C reaches the whole group: the job saves, and nothing that was published changes."""
    slow.configure(seeds=f"[{NEW_SEED}]")
    words = ("snakemake", "--cores", "1", slow.target("sst-only", NEW_SEED))
    with results_lock(slow.root, alone=True):
        assert "is in use: `minbert gc`" in slow.run(*words, ends=1)
    workflow = slow.start(*words, process_group=0)
    os.kill(holder(slow, slow.key("sst-only")), signal.SIGCONT)
    os.killpg(workflow.pid, signal.SIGINT)
    printed, _ = workflow.communicate(timeout=60)
    assert workflow.returncode and "Traceback" not in printed
    assert {row["status"] for row in slow.table("hybrid-bert")} == {"scored"}
    slow.minbert("publish", "--plan", slow.plan())
    assert {row["status"] for row in slow.table("hybrid-bert")} == {"not run"}
    assert not {row["status"] for row in slow.table("index")} & {"failed", "scored"}


def test_a_failing_row_does_not_stop_the_others(project: Project) -> None:
    trained = project.trained()
    project.edit(GRID, "    label: 1-bert\n", "    label: 1-bert\n    optimiser: {lr: 1e+30}\n")
    project.edit(
        GRID, "    label: SST alone\n", "    label: SST alone\n    optimiser: {lr: 2e-5}\n"
    )
    started = time.time()
    printed = project.snakemake("all", ends=1)
    told = [line for line in printed.splitlines() if "minbert: the loss of task" in line]
    assert told and "at step" in told[0] and "batch ids: " in told[0] and "optimiser.lr" in told[0]
    assert "Traceback" not in printed
    log = project.root / "logs" / "train" / f"{project.key('1-bert')}-seed0.log"
    assert told[0].strip() in log.read_text("utf-8")
    assert not project.seed_folder("1-bert").exists() or not any(
        project.seed_folder("1-bert").iterdir()
    )
    assert (project.seed_folder("sst-only") / "run.json").exists()
    assert project.trained().items() >= trained.items()
    status = {row["variant"]: row for row in project.table("hybrid-bert")}
    assert {name: row["status"] for name, row in status.items()} == {
        **dict.fromkeys(project.variants().values(), "scored"),
        "1-bert": "failed",
    }
    assert "at step" in status["1-bert"]["reason"] and not status["1-bert"]["sst_mean"]
    index = {(row["paper"], row["variant"]): row["status"] for row in project.table("index")}
    assert index[PAPER, "1-bert"] == "failed" and index[PAPER, "3-bert"] == "scored"
    assert index[PAPER, "sequential"] == "not configured"
    assert {paper for paper, _ in index} == {PAPER}, "a row of a paper that was not asked for"
    assert re.search(r"ran \d+ jobs? in .*; 1 failed", printed)
    assert f"{PAPER}  best: " in printed
    assert "hybrid-bert: 1-bert failed" in printed and "4 of 12 published rows scored" in printed
    scores = pq.read_table(project.root / "tables" / "scores.parquet")
    assert "1-bert" not in scores["variant"].to_pylist()
    figure = project.root / "figures" / PAPER / "multitask-loss.png"
    with Image.open(figure) as image:
        image.load()
    assert figure.stat().st_mtime > started, "the figure is drawn without the row"
    report = (project.root / "report.html").read_text("utf-8")
    assert f"{PAPER} / 1-bert: stage" in report and "4 of 12 published rows scored" in report
    assert project.jobs() == {
        "train 1-bert 0",
        "scores",
        "table",
        "index",
        "figure",
        "report",
        "publish",
    }

    project.edit(GRID, "    optimiser: {lr: 1e+30}\n", "")
    project.snakemake("all")
    assert {row["status"] for row in project.table("hybrid-bert")} == {"scored"}


def test_a_figure_that_fails_says_so_and_is_tried_again(project: Project) -> None:
    project.edit("src/minbert/figures/curves.py", "def curves(", FAULTY)
    folder, told = project.root / "figures" / PAPER, f"figures/{PAPER}/multitask-loss: not drawn: "
    printed = project.snakemake("all", ends=1)
    assert f"{told}ValueError: no ink" in printed
    with Image.open(folder / "multitask-loss.png") as image:
        assert "no ink" in image.info["Description"]
    report = (project.root / "report.html").read_text("utf-8")
    assert "Figures that could not be drawn." in report
    assert project.jobs() == {"figure", "report", "publish"}
    project.edit("src/minbert/figures/curves.py", FAULTY, "def curves(")
    project.snakemake("all")
    with Image.open(folder / "multitask-loss.png") as image:
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
    assert project.jobs() == set()
    assert "2 training jobs, 0 to run" in project.minbert("plan")

    project.configure(keep_weights="true")
    assert project.jobs() == set()
