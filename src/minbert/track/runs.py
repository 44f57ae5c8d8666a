"""What a training's run tells MLflow: at its start, at its end, or if it came from elsewhere.

Nothing here imports mlflow: the journal takes the report, and the follower stores it.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from minbert.base.environment import commit
from minbert.data.parquet import read_file
from minbert.evaluate.score import of_tasks, score_training
from minbert.evaluate.scoring import overall
from minbert.spec.protocol import OVERALL_TASKS, Measured
from minbert.spec.task import TASKS
from minbert.store.job import Job
from minbert.store.node import finished, seed_folders
from minbert.store.plans import describe_job, read_plan, read_record, stage_rows
from minbert.track.journal import BEST, COST, TEST, Journal, newest_attempts
from minbert.track.store import Tag, say

_COSTS = ("seconds", "steps", "tokens_per_second", "peak_memory_bytes", "peak_device_memory_bytes")


def describe_run(job: Job) -> dict[str, Any]:
    """Return what `Journal.start` needs of a training job."""
    owner, key, seed = job.described["owner"], job.described["key"], job.seed
    # MLflow's table cuts long names: tasks have a column of their own.
    name, _, tasks = job.described["title"].rpartition(" . ")
    own = {"variant": owner["variant"], "stage": owner["stage"], "seed": seed, "tasks": tasks}
    tags = {"minbert.key": key, "minbert.seed": seed, Tag.HOST: os.uname().nodename}
    tags |= {Tag.COMMIT: commit(), "minbert.folder": str(job.out.relative_to(job.root))}
    about = {"experiment": owner["paper"], "key": key, "seed": seed, "name": f"{name} . s{seed}"}
    return {**about, "params": own | dict(_flat(job.spec["stage"])), "tags": tags}


def outcome(job: Job, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `Journal.end` needs of a finished training job with this record.

    Test scores count where there are labels. The tags list the tasks that were learnt, and others.
    """
    how, spec = record["outcome"], record["spec"]
    parts = [score_training(task, "", job.out / "run.json") for task in TASKS]
    scores = {place: score for part in parts for place, score in part.items()}
    took = {f"{COST}/{name}": (record | how).get(name) for name in _COSTS}
    metrics = {name: float(value) for name, value in took.items() if value is not None}
    tasks = job.described.get("overall_tasks", OVERALL_TASKS)
    for kind, split in ((BEST, "dev"), (TEST, "test")):
        values = of_tasks(scores, split)
        if (whole := overall(values, spec["select"], tasks)) is not None:
            values["overall"] = whole
        metrics |= {f"{kind}/{task}": value for task, value in values.items()}
    learned = of_tasks(scores, "dev", "learned")
    return {
        "metrics": metrics,
        "step": how["steps"] * how["best_epoch"] // spec["epochs"],
        "params": {"best_epoch": how["best_epoch"]},
        "tags": {
            "device": record["environment"]["device"],
            "learned": ",".join(task for task in learned if learned[task]),
            "not_learned": ",".join(task for task in learned if not learned[task]),
        },
    }


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names, with dots, and values of nested settings."""
    if not isinstance(value, dict):
        yield name, value
        return
    for inner, of in value.items():
        yield from _flat(of, f"{name}.{inner}" if name else inner)


def log_imported_runs(root: Path, plan: str) -> None:
    """Leave an attempt for each finished training of a plan that no attempt tells of.

    One that cannot be read is reported and left out. Only a process that holds the follower's lock
    may call this.
    """
    trained = root / "store" / "train"
    keys = dict.fromkeys(row["key"] for row in stage_rows(read_plan(root, plan)["variants"]))
    runs = [(key, *each) for key in keys for each in seed_folders(trained / key).items()]
    found = [(key, seed) for key, seed, folder in runs if finished("train", folder)]
    newest = newest_attempts(root)  # Later than the results: a job makes its attempt first.
    for key, seed in found:
        told = newest.get((key, str(seed)))
        if told is None or not (told.alive() or told.end().get("status") == "FINISHED"):
            try:
                _tell(Job(root, describe_job(root, "train", key, plan), seed, threads=1))
            except Exception as error:
                say(f"{trained / key}, seed {seed}: not in MLflow: {error}")


def _tell(job: Job) -> None:
    record = read_record(job.out / "run.json")
    rows = [Measured(**row) for row in read_file(job.out / "history.parquet").to_pylist()]
    ended, told, run = max(row.time for row in rows), outcome(job, record), describe_run(job)
    commit = record["environment"].get("commit", "unknown")
    run["tags"] |= {Tag.COMMIT: commit, Tag.HOST: "elsewhere"}
    journal = Journal.start(job.root, {**run, "started": ended - record["outcome"]["seconds"]})
    for row in rows:
        if "/" not in row.metric:  # as of `train.history`
            journal.log(row)
    journal.end("FINISHED", ended=ended, **told)
