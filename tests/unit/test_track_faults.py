"""Killed followers and killed jobs: every row arrives, once."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from following import (
    follower,
    log,
    offset,
    results,
    start,
    stored_points,
    stored_run,
    wait_for,
    written_points,
)

from minbert.track.follower import Follower
from minbert.track.journal import Attempt, attempts


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, mlflow_store: Path) -> Path:
    """Results whose store all tests share; each uses an experiment or keys of its own."""
    return results(tmp_path_factory.mktemp("results").resolve(), mlflow_store)


def test_a_killed_follower_loses_no_point(root: Path, tmp_path: Path) -> None:
    """Two jobs write on while the follower dies by SIGKILL twice."""
    jobs = [start(root, "first"), start(root, "second")]
    step = 0

    def cursors() -> list[int]:
        return [offset(root, job.folder) for job in jobs]

    for _ in range(2):
        before = cursors()

        def moved(before: list[int] = before) -> bool:
            nonlocal step
            for job in jobs:
                log(job, range(step, step + 20), math.sin)
                job.flush()
            step += 20
            return all(new > old for new, old in zip(cursors(), before, strict=True))

        with follower(root, tmp_path / "told"):
            wait_for(moved, "points of both jobs")
    assert stored_run(root, jobs[0].folder).info.status == "RUNNING"
    jobs[0].end("FAILED", error="loss is nan at step 7")
    log(jobs[1], range(step, step + 5))
    jobs[1].end("FINISHED")
    Follower(root).finish()
    for job, status in zip(jobs, ["FAILED", "FINISHED"], strict=True):
        run = stored_run(root, job.folder)
        assert run.info.status == status
        assert stored_points(root, run.info.run_id) == written_points(Attempt(job.folder))
    assert stored_run(root, jobs[0].folder).data.tags["minbert.error"] == "loss is nan at step 7"


def test_a_killed_job_is_killed_and_its_rerun_supersedes_it(root: Path) -> None:
    code = f"""
        import os, signal
        from minbert.spec.protocol import Measured
        from minbert.track.journal import Journal
        run = {{"experiment": "paper", "key": "again", "seed": 3, "name": "again . s3"}}
        journal = Journal.start({str(root)!r}, run)
        for step in range(10):
            journal.log(Measured(step, 1, "train", "sst", "loss", 1.0, 1.7e9))
        journal.flush()
        with (journal.folder / "history.jsonl").open("ab") as handle:
            handle.write(b'{{"step": 11, "ep')
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    (killed,) = [a for a in attempts(root) if a.run["key"] == "again"]
    Follower(root).finish()
    run = stored_run(root, killed.name)
    assert run.info.status == "KILLED"
    assert run.info.end_time == 1_700_000_000_000, "when the last value was measured"
    assert sum(stored_points(root, run.info.run_id).values()) == 10
    assert "minbert.superseded" not in run.data.tags
    again = Follower(root)
    again.sweep()
    assert killed.name not in {attempt.name for attempt in again.pending()}

    other_seed = start(root, "again", seed=4)
    other_seed.end("FINISHED")
    rerun = start(root, "again", seed=3)
    Follower(root).finish()
    assert stored_run(root, killed.name).data.tags["minbert.superseded"] == rerun.folder.name
    assert "minbert.superseded" not in stored_run(root, other_seed.folder).data.tags
    assert stored_run(root, rerun.folder).info.status == "RUNNING"
    rerun.end("FINISHED")
    Follower(root).finish()
    assert stored_run(root, rerun.folder).info.status == "FINISHED"


def test_a_job_that_only_seemed_dead_is_taken_up_again(root: Path) -> None:
    journal = start(root, "revived")
    log(journal, range(5))
    journal.flush()
    (journal.folder / "lock").rename(journal.folder / "unseen")  # As if locks did not reach us.
    Follower(root).finish()
    assert stored_run(root, journal.folder).info.status == "KILLED"
    log(journal, range(5, 9))
    journal.end("FINISHED")
    Follower(root).finish()
    run = stored_run(root, journal.folder)
    assert run.info.status == "FINISHED"
    assert sum(stored_points(root, run.info.run_id).values()) == 9
