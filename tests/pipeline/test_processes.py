"""A run that two processes share: started by Snakemake, stopped, killed, gone on with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .project import Project, wait_for

pytestmark = pytest.mark.pipeline

LONG = "{epochs: 4000}"
"""More than a test waits for."""


def ranks(job: subprocess.Popen[str]) -> dict[int, int]:
    """Return {rank: process id} of the processes that a job has started."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            parent = folder.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            words = folder.joinpath("environ").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        told = dict(word.split(b"=", 1) for word in words if b"=" in word)
        if parent == str(job.pid) and b"RANK" in told:
            found[int(told[b"RANK"])] = int(folder.name)
    return found


def command(project: Project) -> tuple[str, ...]:
    words = ("train", project.key("3-bert"), "--seed", "0", "--threads", "2")
    return ("minbert", *words)


@pytest.fixture
def long(project: Project) -> Project:
    """A project whose 3-bert trains for long, by two processes, and saves after each epoch."""
    project.configure(override=LONG, processes='{"hybrid-bert/3-*": 2}')
    project.minbert("plan")
    return project


def begun(project: Project) -> subprocess.Popen[str]:
    """Start the training; return when it has saved its state once, since now."""
    state = project.root / "work" / project.key("3-bert") / "seed0" / "state.json"
    state.unlink(missing_ok=True)
    job = project.start(*command(project))
    wait_for(lambda: state.exists() or job.poll() is not None, "no state was saved")
    assert job.poll() is None, job.communicate()[0]
    return job


def test_snakemake_starts_it_and_counts_its_threads(project: Project) -> None:
    project.configure(processes='{"hybrid-bert/3-bert/*": 2}', threads="1")
    folder = project.seed_folder("3-bert")
    for path in list(folder.iterdir()):
        path.unlink()
    project.snakemake(project.target("3-bert", 0))
    assert re.search(r"rule train:(\n    .*)*\n    threads: 2\n", project.log()), project.log()
    assert json.loads((folder / "run.json").read_text())["processes"] == 2
    assert {p.name for p in folder.iterdir()} == {
        *("model.safetensors", "history.parquet", "predictions.parquet", "run.json")
    }
    log = project.root / "logs" / "train" / f"{project.key('3-bert')}-seed0.log"
    assert log.read_text().count("2 processes") == 1, "the first one tells, the others do not"


def test_a_killed_process_ends_the_others_at_once(long: Project) -> None:
    job = begun(long)
    there = ranks(job)
    assert sorted(there) == [0, 1]
    os.kill(there[1], signal.SIGKILL)
    killed = time.monotonic()
    printed, _ = job.communicate(timeout=60)
    assert time.monotonic() - killed < 15
    assert job.returncode == 2
    assert "minbert: process 1 of 2 (from 0; pid" in printed and "was killed by SIGKILL" in printed
    assert "The next run goes on from the last saved state" in printed
    assert not any(Path(f"/proc/{pid}").exists() for pid in there.values())
    state = long.root / "work" / long.key("3-bert") / "seed0" / "state.json"
    kept = json.loads(state.read_text())["facts"]["position"]["step"]
    again = long.start(*command(long))
    told: list[str] = []
    assert again.stderr is None and again.stdout is not None
    for line in again.stdout:
        told.append(line)
        if "going on after step" in line:
            break
    os.kill(again.pid, signal.SIGTERM)
    again.communicate(timeout=60)
    assert any(f"going on after step {kept} of" in line for line in told), "".join(told)


def test_sigterm_saves_where_they_stand_and_a_killed_parent_leaves_no_orphans(
    long: Project,
) -> None:
    job = begun(long)
    there = ranks(job)
    os.kill(job.pid, signal.SIGTERM)
    printed, _ = job.communicate(timeout=60)
    assert job.returncode == 1 and "stopped by signal 15" in printed
    assert "the next run goes on from here" in printed, printed
    assert not any(Path(f"/proc/{pid}").exists() for pid in there.values())
    job = begun(long)
    there = ranks(job)
    job.kill()
    job.communicate(timeout=60)
    gone = lambda: not any(Path(f"/proc/{pid}").exists() for pid in there.values())  # noqa: E731
    wait_for(gone, "processes outlived the one that started them", seconds=30)
