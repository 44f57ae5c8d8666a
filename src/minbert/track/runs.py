"""What a training's run tells MLflow: at its start, at its end, or if it came from elsewhere.

Nothing here imports mlflow: the journal takes the report, and the follower stores it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minbert.base.environment import commit
from minbert.base.errors import UserError
from minbert.data.identity import sha256
from minbert.data.parquet import read_file
from minbert.evaluate.floors import FloorTest, against_floor
from minbert.evaluate.scoring import overall
from minbert.spec.protocol import OVERALL_TASKS, Measured
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.store.job import Job
from minbert.store.node import finished, seed_folders
from minbert.store.plans import describe_job, read_plan, stage_rows
from minbert.store.record import read_record
from minbert.track.journal import BEST, COST, FLOOR, TEST, Journal, attempts
from minbert.track.store import Tag, say

RATES = ("seconds", "steps", "tokens_per_second")
PEAKS = ("peak_memory_bytes", "peak_device_memory_bytes")
_ELSEWHERE = "elsewhere"


def describe_run(job: Job) -> dict[str, Any]:
    """Return what `Journal.start` needs of a training job."""
    spec = StageSpec.model_validate(job.spec["stage"])
    owner = job.described["owner"]
    stage = "" if owner["stage"] == "main" else f"/{owner['stage']}"
    datasets = []
    for task, tokens in job.needs("tokens").items():
        if not tokens.exists():
            continue  # A bundle has none.
        # Each split that the run uses; the digest is the whole table's.
        table = {
            "name": task,
            "digest": sha256(tokens),
            "source": str(tokens.relative_to(job.root)),
        }
        for split, rows in Counter(read_file(tokens, ["split"])["split"].to_pylist()).items():
            if spec.tasks[task].trained or split != "train":
                datasets.append(table | {"split": split, "rows": rows})
    return {
        "experiment": owner["paper"],
        "key": job.described["key"],
        "seed": job.seed,
        # MLflow's table cuts long names: tasks have a column of their own.
        "name": f"{owner['variant']}{stage} . s{job.seed}",
        "params": {
            "variant": owner["variant"],
            "stage": owner["stage"],
            "tasks": "+".join(spec.trained_tasks),
            "seed": str(job.seed),
            **_flatten(spec.model_dump(mode="json")),
        },
        "tags": {Tag.RULE: spec.select, Tag.STAGE: owner["stage"], Tag.COMMIT: commit()},
        "datasets": datasets,
    }


def outcome(job: Job, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `Journal.end` needs of a finished training job with this record."""
    how, spec = record["outcome"], record["spec"]
    tasks = job.described.get("overall_tasks", OVERALL_TASKS)
    scores, tags = of_predictions(job.out / "predictions.parquet", spec["select"], tasks)
    return {
        "metrics": scores | costs(record),
        "step": how["steps"] * how["best_epoch"] // spec["epochs"],
        "artifacts": {path.name: path for path in sorted(job.out.iterdir())},
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
    """Return the metrics `BEST`, `FLOOR` and `TEST` of a run's predictions at `path`, and tags.

    Test counts where it has labels. The tags list the tasks that were learnt, those that were not,
    and those with constant predictions. `rule` is the overall score's, `overall_tasks` are its
    tasks.
    """
    table = read_file(path, ("task", "split", "prediction", "label"))
    dev, test = (_tested(table.filter(pc.equal(table["split"], s))) for s in ("dev", "test"))
    metrics: dict[str, float] = {}
    for kind, values in (
        (BEST, {task: found.score for task, found in dev.items()}),
        (FLOOR, {task: found.floor for task, found in dev.items()}),
        (TEST, {task: found.score for task, found in test.items()}),
    ):
        if (whole := overall(values, rule, overall_tasks)) is not None:
            values["overall"] = whole
        metrics |= {f"{kind}/{task}": value for task, value in values.items()}
    tags = {
        "learned": [task for task, found in dev.items() if found.above],
        "not_learned": [task for task, found in dev.items() if not found.above],
        "constant": [task for task, found in dev.items() if found.constant],
    }
    return metrics, {name: ",".join(tasks) for name, tasks in tags.items() if tasks}


def _tested(table: pa.Table) -> dict[str, FloorTest]:
    """Return the scores of a split's predictions by task, with their floors."""
    found = {}
    for task in TASKS:
        part = table.filter(pc.equal(table["task"], task))
        label = part["label"].to_numpy()  # null as nan
        if len(label) and np.isfinite(label).all():
            found[task] = against_floor(task, part["prediction"].to_numpy(), label)
    return found


def costs(record: Mapping[str, Any]) -> dict[str, float]:
    """Return what a run took, by its record: seconds, steps, tokens a second, bytes of memory."""
    told = {f"{COST}/{name}": record["outcome"].get(name) for name in RATES}
    told |= {f"{COST}/{name}": record.get(name) for name in PEAKS}
    return {name: float(value) for name, value in told.items() if value is not None}


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
