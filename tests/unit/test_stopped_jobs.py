"""What else works on the results of a training job, in its process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from planning import TWO_STAGES, planning_folder
from trained_root import ONE, TWO, plan_of

from minbert.base.files import write_text
from minbert.commands.cli import main
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef

LONG = "  long: {extends: three, epochs: 400}\n"
KEEP = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW")}


def test_what_is_trained_into_is_not_deleted_from_another_clone(
    trained_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other clone's configuration does not need the variant; its own Snakemake is idle."""
    base = tmp_path / "base"
    shutil.copytree(trained_plan.base, base)
    write_text(base / "one.yaml", ONE + LONG)
    write_text(base / "two.yaml", TWO)
    plan = plan_of(base)
    write(plan)
    clone = planning_folder(tmp_path / "clone", TWO_STAGES)
    wanted = f"grids: [g]\ndata: builtin\nbackbone: builtin\nresults: {plan.root}\n"
    write_text(clone / "config.yaml", wanted)
    words = ["gc", "--delete", "--directory", str(clone)]
    key = plan.train(StageRef("one", "long", "main")).key
    training = ["train", key, "--seed", "0", "--results", str(plan.root)]
    job = subprocess.Popen([sys.executable, "-m", "minbert", *training], env=KEEP)
    work = plan.root / "work" / key / "seed0"
    try:
        deadline = time.monotonic() + 120
        while not any(work.glob("state-*.pt")):
            assert job.poll() is None and time.monotonic() < deadline, "no epoch is saved"
            time.sleep(0.05)
        with pytest.raises(SystemExit):
            main(words)
        assert f"{plan.root} is in use: a workflow or a job" in capsys.readouterr().err
        assert any(work.glob("state-*.pt")) and job.poll() is None
    finally:
        job.kill()
        job.wait()
    main(words)
    assert " deleted, " in capsys.readouterr().out
    assert not list((plan.root / "store" / "train").iterdir())
