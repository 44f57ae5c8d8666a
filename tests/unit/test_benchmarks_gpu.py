"""The parts of the benchmark that are meant for a GPU, as far as a CPU shows them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import sharing

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "gpu.sh"


def test_sharing_tells_what_runs_do_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two take as long as one; the real thing with one alone, which takes as long as it takes.
    seconds = sharing.seconds
    monkeypatch.setattr(sharing, "seconds", lambda runs, **told: 2.0)
    words = "--device cpu --precision fp32 --sizes tiny --runs 1 2 --steps 3 --repeats 2"
    sharing.main(words.split())
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| tiny | 1 | 24 (24 to 24) | 1.00 |",
        "| tiny | 2 | 48 (48 to 48) | 2.00 |",
    ]
    monkeypatch.setattr(sharing, "seconds", seconds)
    sharing.main([*words.split(), "--runs", "1", "--repeats", "1"])
    assert capsys.readouterr().out.splitlines()[2].endswith("| 1.00 |")


def test_jobs_work_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    job = "import time; print('ready', flush=True); input(); time.sleep(1); print('done')"
    monkeypatch.setattr(sharing, "JOB", job)
    assert 1 <= sharing.seconds(3) < 2


FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
    "-m pytest") echo tested on $MINBERT_TEST_DEVICE ;;
    "-m benchmarks") exit 3 ;;
    "-m benchmarks.sharing") sleep 60 & wait ;;
    "-m minbert") echo "sst 1"; echo "sst-finetune main"; exit 0 ;;
    "-m "*) exit 0 ;;
    *) exec {python} "$@" ;;
esac
"""
FAKE_CARDS = """#!/bin/sh
while echo sample; do sleep 0.1; done
"""


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def gpu_script(
    out: Path, *words: str, device: str = "cpu", script: Path = SCRIPT, **settings: str
) -> tuple[int, dict[str, str]]:
    """Run `gpu.sh`; return its exit code, and what its summary says by part."""
    command = ["bash", str(script), "--device", device, str(out), *words]
    done = subprocess.run(command, env={**os.environ, **settings}, check=False, text=True)
    lines = (out / "summary.md").read_text().splitlines()[4:]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in lines]
    return done.returncode, dict(rows)


def test_the_script_goes_on_after_parts_that_fail_or_take_too_long(tmp_path: Path) -> None:
    python = executable(tmp_path / "fake" / "py", FAKE_PYTHON.format(python=sys.executable))
    executable(tmp_path / "fake" / "nvidia-smi", FAKE_CARDS)
    path = f"{tmp_path / 'fake'}:{os.environ['PATH']}"
    code, outcomes = gpu_script(
        tmp_path / "out", PYTHON=str(python), PATH=path, LIMIT_sharing="1", LIMIT_demo="0"
    )
    assert code == 1
    assert outcomes.pop("set-up").startswith("ok: torch ")
    assert outcomes.pop("nvidia-smi").split()[0] == "ok:"
    assert outcomes == {
        "tests": "ok",
        "bench": "failed (3)",
        "sharing": "timed out",
        "grid": "failed (1)",  # the plan has no stage of that name
        "plan": "ok",
        "rates in plan": "of stages trained alone on cpu: none, so they are assumed",
        "demo": "skipped: no time left",
    }
    assert len((tmp_path / "out" / "nvidia-smi.csv").read_text().splitlines()) > 5
    log = (tmp_path / "out" / "log.txt").read_text()
    assert "tested on cpu" in log and "no grid has the stage single-task/sst" in log
