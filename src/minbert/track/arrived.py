"""Runs for finished trainings of which no job here told, as they came in a bundle.

What a job would have told is in the store: the history, the predictions and the record.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.spec.protocol import Measured
from minbert.store.job import Job
from minbert.store.node import finished, seed_folders
from minbert.store.plans import describe_job, read_plan, stage_rows
from minbert.store.record import adoptions, read_record
from minbert.track.journal import END, Journal, attempts
from minbert.track.store import Tag, say

_ELSEWHERE = "elsewhere"


def log_imported_runs(root: Path, plan: str) -> list[str]:
    """Leave an attempt for each finished training of a plan that no attempt tells of.

    One that cannot be read is reported and left out; its folder is returned. Only a process that
    holds the follower's lock may call this.
    """
    failed = []
    for job in _arrived(root, plan):
        try:
            _tell(job)
        except (UserError, OSError, KeyError, ValueError, TypeError) as error:
            say(f"{job.out}: not in MLflow: {error}")
            failed.append(str(job.out))
    return failed


def _arrived(root: Path, plan: str) -> Iterator[Job]:
    rows = stage_rows(read_plan(root, plan).get("variants", ()))
    found = []
    for key in dict.fromkeys(row["key"] for row in rows):
        described = describe_job(root, "train", key, plan)
        for seed, folder in seed_folders(root / "store" / "train" / key).items():
            if finished("train", described["spec"], folder):
                found.append(Job(root, described, seed, threads=1))
    if not found:
        return
    # Later than the results: a job makes its attempt first.
    told = set()
    for attempt in attempts(root):
        if attempt.alive() or attempt.recall(END).get("status") == "FINISHED":
            with suppress(UserError, KeyError):  # its `run.json` is damaged
                told.add(attempt.group)
    for job in found:
        if told.isdisjoint((key, str(job.seed)) for key in _keys(job)):
            yield job


def _keys(job: Job) -> set[str]:
    """Return the key of a result and those that it was carried over from."""
    return {job.described["key"], *(each["from"] for each in adoptions(job.out))}


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
