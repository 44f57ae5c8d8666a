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
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.store.job import Job
from minbert.store.node import finished, seed_folders
from minbert.store.plans import describe_job, read_plan, read_record, stage_rows
from minbert.track.journal import BEST, COST, TEST, Journal, newest_attempts
from minbert.track.store import Tag, say

_COSTS = ("seconds", "steps", "tokens_per_second", "peak_memory_bytes", "peak_device_memory_bytes")


def describe_run(job: Job) -> dict[str, Any]:
    """Return what `Journal.start` needs of a training job."""
    spec = StageSpec.model_validate(job.spec["stage"])
    owner, key = job.described["owner"], job.described["key"]
    stage = "" if owner["stage"] == "main" else f"/{owner['stage']}"
    own = {"variant": owner["variant"], "stage": owner["stage"], "seed": job.seed}
    own["tasks"] = "+".join(spec.trained_tasks)
    tags = {"minbert.key": key, "minbert.seed": job.seed, Tag.HOST: os.uname().nodename}
    tags |= {Tag.COMMIT: commit(), "minbert.folder": str(job.out.relative_to(job.root))}
    return {
        "experiment": owner["paper"],
        "key": key,
        "seed": job.seed,
        # MLflow's table cuts long names: tasks have a column of their own.
        "name": f"{owner['variant']}{stage} . s{job.seed}",
        "params": own | dict(_flat(spec.model_dump(mode="json"))),
        "tags": tags,
    }


def outcome(job: Job, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `Journal.end` needs of a finished training job with this record.

    Test scores count where there are labels. The tags list the tasks that were learnt, and others.
    """
    how, spec = record["outcome"], record["spec"]
    parts = [score_training(task, "", job.out / "run.json", {}) for task in TASKS]
    scores = {place: score for part in parts for place, score in part.items()}
    took = {f"{COST}/{name}": (record | how).get(name) for name in _COSTS}
    metrics = {name: float(value) for name, value in took.items() if value is not None}
    tasks = job.described.get("overall_tasks", OVERALL_TASKS)
    for kind, split in ((BEST, "dev"), (TEST, "test")):
        values = of_tasks(scores, split)
        if (whole := overall(values, spec["select"], tasks)) is not None:
            values["overall"] = whole
        metrics |= {f"{kind}/{task}": value for task, value in values.items()}
    tags = {"device": record["environment"]["device"]}
    learned = of_tasks(scores, "dev", "learned")
    for name, above in (("learned", True), ("not_learned", False)):
        if named := [task for task in learned if learned[task] == above]:
            tags[name] = ",".join(named)
    return {
        "metrics": metrics,
        "step": how["steps"] * how["best_epoch"] // spec["epochs"],
        "params": {"best_epoch": how["best_epoch"]},
        "tags": tags,
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
    rows = stage_rows(read_plan(root, plan).get("variants", ()))
    trained = root / "store" / "train"
    found = [
        (key, seed)
        for key in dict.fromkeys(row["key"] for row in rows)
        for seed, folder in seed_folders(trained / key).items()
        if finished("train", folder)
    ]
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
