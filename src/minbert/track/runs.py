"""What a training's run tells MLflow: at its start, at its end, or if it came from elsewhere.

Nothing here imports mlflow: the journal takes the report, and the follower stores it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minbert.base.environment import commit
from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.floors import against_floor
from minbert.evaluate.reading import Score
from minbert.evaluate.scoring import overall
from minbert.spec.protocol import OVERALL_TASKS, Measured
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.store.job import Job
from minbert.store.node import finished, seed_folders
from minbert.store.plans import describe_job, read_plan, read_record, stage_rows
from minbert.track.journal import BEST, COST, TEST, Journal, attempts
from minbert.track.store import Tag, say

_COSTS = ("seconds", "steps", "tokens_per_second", "peak_memory_bytes", "peak_device_memory_bytes")


def describe_run(job: Job) -> dict[str, Any]:
    """Return what `Journal.start` needs of a training job."""
    spec = StageSpec.model_validate(job.spec["stage"])
    owner = job.described["owner"]
    stage = "" if owner["stage"] == "main" else f"/{owner['stage']}"
    own = {"variant": owner["variant"], "stage": owner["stage"], "seed": str(job.seed)}
    own["tasks"] = "+".join(spec.trained_tasks)
    return {
        "experiment": owner["paper"],
        "key": job.described["key"],
        "seed": job.seed,
        # MLflow's table cuts long names: tasks have a column of their own.
        "name": f"{owner['variant']}{stage} . s{job.seed}",
        "params": own | _flatten(spec.model_dump(mode="json")),
        "tags": {Tag.COMMIT: commit(), Tag.FOLDER: str(job.out.relative_to(job.root))},
    }


def outcome(job: Job, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `Journal.end` needs of a finished training job with this record."""
    how, spec = record["outcome"], record["spec"]
    tasks = job.described.get("overall_tasks", OVERALL_TASKS)
    scores, tags = of_predictions(job.out / "predictions.parquet", spec["select"], tasks)
    took = {name: value for name in _COSTS if (value := (record | how).get(name)) is not None}
    return {
        "metrics": scores | {f"{COST}/{name}": float(value) for name, value in took.items()},
        "step": how["steps"] * how["best_epoch"] // spec["epochs"],
        "params": {"best_epoch": str(how["best_epoch"])},
        "tags": {"device": record["environment"]["device"], **tags},
    }


def _flatten(value: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        return {prefix: str(value)}
    found: dict[str, str] = {}
    for name, inner in value.items():
        found |= _flatten(inner, f"{prefix}.{name}" if prefix else name)
    return found


def of_predictions(
    path: Path, rule: str, overall_tasks: Sequence[str] = OVERALL_TASKS
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the metrics `BEST` and `TEST` of a run's predictions at `path`, and tags.

    Test counts where it has labels. The tags list the tasks that were learnt and those that were
    not. `rule` is the overall score's, `overall_tasks` are its tasks.
    """
    table = read_file(path, ("task", "split", "prediction", "label"))
    metrics: dict[str, float] = {}
    tags: dict[str, str] = {}
    for kind, split in ((TEST, "test"), (BEST, "dev")):
        found = _tested(table.filter(pc.equal(table["split"], split)))
        values = {task: of.value for task, of in found.items()}
        if (whole := overall(values, rule, overall_tasks)) is not None:
            values["overall"] = whole
        metrics |= {f"{kind}/{task}": value for task, value in values.items()}
    for name, above in (("learned", True), ("not_learned", False)):  # on dev
        if tasks := [task for task, of in found.items() if of.learned is above]:
            tags[name] = ",".join(tasks)
    return metrics, tags


def _tested(table: pa.Table) -> dict[str, Score]:
    """Return the scores of a split's predictions by task, with their floors."""
    found = {}
    for task in TASKS:
        part = table.filter(pc.equal(table["task"], task))
        label = part["label"].to_numpy()  # null as nan
        if len(label) and np.isfinite(label).all():
            found[task] = against_floor(task, part["prediction"].to_numpy(), label)
    return found


def log_imported_runs(root: Path, plan: str) -> None:
    """Leave an attempt for each finished training of a plan that no attempt tells of.

    One that cannot be read is reported and left out. Only a process that holds the follower's lock
    may call this.
    """
    rows = stage_rows(read_plan(root, plan).get("variants", ()))
    jobs = []
    for key in dict.fromkeys(row["key"] for row in rows):
        described = describe_job(root, "train", key, plan)
        for seed, folder in seed_folders(root / "store" / "train" / key).items():
            if finished("train", folder):
                jobs.append(Job(root, described, seed, threads=1))
    # Later than the results: a job makes its attempt first.
    told = {a.group for a in attempts(root) if a.status == "FINISHED" or a.alive()}
    for job in jobs:
        if (job.described["key"], str(job.seed)) in told:
            continue
        try:
            _tell(job)
        except (UserError, OSError, KeyError, ValueError, TypeError) as error:
            say(f"{job.out}: not in MLflow: {error}")


def _tell(job: Job) -> None:
    record = read_record(job.out / "run.json")
    rows = [Measured(**row) for row in read_file(job.out / "history.parquet").to_pylist()]
    ended, told = max(row.time for row in rows), outcome(job, record)
    run = describe_run(job)
    run["tags"][Tag.COMMIT] = record["environment"].get("commit", "unknown")
    run |= {"started": ended - record["outcome"]["seconds"], "host": "elsewhere"}
    journal = Journal.start(job.root, run)
    for row in rows:
        if "/" not in row.metric:  # as of `train.history`
            journal.log(row)
    journal.end("FINISHED", ended=ended, **told)
