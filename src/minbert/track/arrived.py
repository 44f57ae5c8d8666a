"""Runs for finished trainings of which no job here told: from a bundle, or carried over by `adopt`.

What a job would have told is in the store: the history, the predictions and the record.
"""

from collections.abc import Iterator
from pathlib import Path

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.spec.protocol import Measured
from minbert.store.job import Job
from minbert.store.node import finished, seed_folders
from minbert.store.plans import describe_job, read_plan, stage_rows
from minbert.store.record import read_record
from minbert.track.journal import Journal, attempts
from minbert.track.store import Tag, say

_ELSEWHERE = "elsewhere"


def log_imported_runs(root: Path, plan: str) -> None:
    """Leave an attempt for each finished training of a plan that no attempt tells of.

    One that cannot be read is reported and left out. Only a process that holds the follower's lock
    may call this.
    """
    finished_here = list(_finished(root, plan))
    # Later than the results: a job makes its attempt first.
    told = {a.group for a in attempts(root) if a.status == "FINISHED" or a.alive()}
    for job in finished_here:
        if (job.described["key"], str(job.seed)) in told:
            continue
        try:
            _tell(job)
        except (UserError, OSError, KeyError, ValueError, TypeError) as error:
            say(f"{job.out}: not in MLflow: {error}")


def _finished(root: Path, plan: str) -> Iterator[Job]:
    rows = stage_rows(read_plan(root, plan).get("variants", ()))
    for key in dict.fromkeys(row["key"] for row in rows):
        described = describe_job(root, "train", key, plan)
        for seed, folder in seed_folders(root / "store" / "train" / key).items():
            if finished("train", described["spec"], folder):
                yield Job(root, described, seed, threads=1)


def _tell(job: Job) -> None:
    from minbert.track.runs import describe_run, outcome

    record = read_record(job.out / "run.json")
    rows = [Measured(**row) for row in read_file(job.out / "history.parquet").to_pylist()]
    ended, told = max(row.time for row in rows), outcome(job, record)
    run = describe_run(job)
    run["tags"][Tag.COMMIT] = record["environment"].get("commit", "unknown")
    run |= {"started": ended - record["outcome"]["seconds"], "host": _ELSEWHERE}
    journal = Journal.start(job.root, run)
    for row in rows:
        if "/" not in row.metric:  # as of `train.history`
            journal.log(row)
    journal.end("FINISHED", ended=ended, **told)
