"""A training job's process that is told to stop, and what else works on its results meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from planning import TWO_STAGES, planning_folder
from trained_root import ONE, TWO, plan_of

from minbert.base.files import write_text
from minbert.commands.cli import main
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.publish.publish import failed_variants
from minbert.spec.resolve import StageRef
from minbert.track.follower import Follower
from minbert.track.journal import newest_attempts
from minbert.track.store import Tag, open_store

LONG = "  long: {extends: three, epochs: 400}\n"
KEEP = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW")}


@pytest.fixture
def plan(trained_plan: Plan, tmp_path: Path) -> Plan:
    """Return the plan of a copy of the trained results, with a variant that trains for long."""
    base = tmp_path / "base"
    shutil.copytree(trained_plan.base, base)
    write_text(base / "one.yaml", ONE + LONG)
    write_text(base / "two.yaml", TWO)
    made = plan_of(base)
    write(made)
    return made


@pytest.fixture
def job(plan: Plan) -> Iterator[subprocess.Popen[str]]:
    """Return the process of the long training, once it has saved a state."""
    key = plan.train(StageRef("one", "long", "main")).key
    words = ["train", key, "--seed", "0", "--results", str(plan.root)]
    process = subprocess.Popen(
        [sys.executable, "-m", "minbert", *words], stderr=subprocess.PIPE, text=True, env=KEEP
    )
    work = plan.root / "work" / key / "seed0"
    deadline = time.monotonic() + 60
    while not any(work.glob("state-*.pt")):
        assert process.poll() is None and time.monotonic() < deadline, "no epoch is saved"
        time.sleep(0.05)
    yield process
    process.kill()
    process.communicate()


def test_what_is_trained_into_is_not_deleted_from_another_clone(
    plan: Plan, job: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other clone's configuration does not need the variant; its own Snakemake is idle."""
    clone = planning_folder(tmp_path / "clone", TWO_STAGES)
    wanted = f"grids: [g]\ndata: builtin\nbackbone: builtin\nresults: {plan.root}\n"
    write_text(clone / "config.yaml", wanted)
    words = ["gc", "--delete", "--directory", str(clone)]
    with pytest.raises(SystemExit):
        main(words)
    assert f"{plan.root} is in use: a workflow or a job" in capsys.readouterr().err
    work = plan.root / "work" / plan.train(StageRef("one", "long", "main")).key / "seed0"
    assert any(work.glob("state-*.pt")) and job.poll() is None
    job.kill()
    job.wait()
    main(words)
    assert " deleted, " in capsys.readouterr().out
    assert not list((plan.root / "store" / "train").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_was_told_to_stop_saves_its_state_and_has_not_failed(
    plan: Plan, job: subprocess.Popen[str], number: int, mlflow_store: Path
) -> None:
    job.send_signal(number)
    _, printed = job.communicate(timeout=60)
    assert job.returncode and f"stopped by signal {number}; the next run resumes" in printed
    assert "Traceback" not in printed
    key = plan.train(StageRef("one", "long", "main")).key
    attempt = newest_attempts(plan.root)[key, "0"]
    assert (attempt.end() or {})["status"] == "KILLED"
    assert failed_variants(plan.root, plan.publication["variants"]) == {}

    shutil.copy(mlflow_store, plan.root / "mlflow.db")
    follower = Follower(plan.root)
    follower.sweep()
    assert follower.pending() == []
    store = open_store(plan.root, follower.uri)
    runs = store.runs("", store.experiment("one"))
    (run,) = [run for run in runs if run.data.tags[Tag.ATTEMPT] == attempt.name]
    assert run.info.status == "KILLED"
    assert f"stopped by signal {number}" in run.data.tags["minbert.error"]
