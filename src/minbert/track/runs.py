"""What MLflow is told: of a training at its start and end, or if it came from elsewhere; of rows.

Nothing here imports mlflow: the journal takes the report, and the follower stores it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.base.environment import commit
from minbert.base.files import write_json
from minbert.data.parquet import read_file
from minbert.evaluate.reading import Scores, read_scores
from minbert.evaluate.score import RunScores, of_tasks, score_training
from minbert.evaluate.scoring import CORRELATIONS, overall
from minbert.evaluate.seeds import over_seeds
from minbert.spec.protocol import Measured
from minbert.spec.task import TASKS
from minbert.store.job import Job
from minbert.store.node import finished, seed_folders
from minbert.store.plans import SCORES, describe_job, read_plan, read_record, stage_rows
from minbert.track.journal import BEST, COST, TEST, TRACKING, Journal, newest_attempts
from minbert.track.store import Tag, say

PARENTS = Path(TRACKING) / "parents.json"
"""By paper, {key of a run that its grid needs: the attempt of the row above it, or ""}."""

_COSTS = ("seconds", "steps", "tokens_per_second", "peak_memory_bytes", "peak_device_memory_bytes")


def describe_run(job: Job) -> dict[str, Any]:
    """Return what `Journal.start` needs of a training job."""
    owner, key, seed = job.described["owner"], job.described["key"], job.seed
    # MLflow's table cuts long names: tasks have a separate column.
    name, _, tasks = job.described["title"].rpartition(" . ")
    own = {"variant": owner["variant"], "stage": owner["stage"], "seed": seed, "tasks": tasks}
    tags = {"minbert.key": key, "minbert.seed": seed, Tag.HOST: os.uname().nodename}
    tags |= {Tag.COMMIT: commit(), "minbert.folder": str(job.out.relative_to(job.root))}
    about = {"experiment": owner["paper"], "key": key, "seed": seed, "name": f"{name} . s{seed}"}
    return {**about, "params": own | _flat(job.spec["stage"]), "tags": tags}


def outcome(job: Job, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `Journal.end` needs of a finished training job with this record.

    Test scores count where there are labels. A tag lists the tasks that were not learned.
    """
    how, spec = record["outcome"], record["spec"]
    scores: RunScores = {}
    for task in TASKS:
        scores |= score_training(task, "", job.out / "run.json")
    facts = {**record, **how}
    metrics = {f"{COST}/{of}": facts[of] for of in _COSTS if facts.get(of) is not None}
    tasks = job.described["overall_tasks"]
    for kind, split in ((BEST, "dev"), (TEST, "test")):
        values = of_tasks(scores, split)
        if (whole := overall(values, spec["select"], tasks)) is not None:
            values["overall"] = whole
        metrics |= {f"{kind}/{task}": value for task, value in values.items()}
    low = [task for task, of in of_tasks(scores, "dev", "learned").items() if not of]
    return {
        "metrics": metrics,
        "step": how["steps"] * how["best_epoch"] // spec["epochs"],
        "params": {"best_epoch": how["best_epoch"]},
        "tags": {"device": record["environment"]["device"], Tag.NOT_LEARNED: " ".join(low)},
    }


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return nested settings by their names, with dots."""
    if not isinstance(value, dict):
        return {name: value}
    found: dict[str, Any] = {}
    for inner, of in value.items():
        found |= _flat(of, f"{name}.{inner}" if name else inner)
    return found


def log_imported_runs(root: Path, plan: str) -> None:
    """Leave an attempt for each finished training of a plan that no attempt tells of.

    One that cannot be read is reported and left out. Only a process that holds the follower's lock
    may call this.
    """
    trained = root / "store" / "train"
    keys = dict.fromkeys(row["key"] for row in stage_rows(read_plan(root, plan)["variants"]))
    found = [
        (key, seed)
        for key in keys
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
    commit = record["environment"]["commit"]
    run["tags"] |= {Tag.COMMIT: commit, Tag.HOST: "elsewhere"}
    journal = Journal.start(job.root, {**run, "started": ended - record["outcome"]["seconds"]})
    for row in rows:
        if "/" not in row.metric:  # as of `train.history`
            journal.log(row)
    journal.end("FINISHED", ended=ended, **told)


def record_rows(root: Path, listed: Mapping[str, Any]) -> None:
    """Add what is published of the papers of plan `listed` to the logs of rows; write `PARENTS`.

    A row has the log of a run that is no training, to which each publication adds; a new one if it
    has lost a metric, which a log cannot take back.
    """
    papers: dict[str, dict[str, str]] = {}
    before, stages = newest_attempts(root), stage_rows(listed["variants"])
    for paper, facts in listed["papers"].items():
        scores = read_scores(root / SCORES, paper)
        own = [(stage["variant"], stage["key"]) for stage in stages if stage["paper"] == paper]
        used = [(of.variant, score.key) for of in scores for score in scores[of].values()]
        above, names = {key: "" for _, key in own}, {}
        for variant, row in _rows(scores, facts["rule"], facts["overall_tasks"]).items():
            key = f"row.{paper}.{variant}"
            old = before.get((key, "0"))
            run = {"experiment": paper, "key": key, "seed": 0, "name": variant}
            lost = old and {name for name, *_ in old.read()[0]["points"]} - row["metrics"].keys()
            journal = Journal.start(root, run) if old is None or lost else Journal(old.path)
            journal.end("FINISHED", **row)
            above[key], names[variant] = "", journal.path.stem
        # A run is below the first row that trains it, or else the first that chose it.
        for variant, key in own + used:
            above[key] = above.get(key) or names.get(variant, "")
        papers[paper] = above
    write_json(root / PARENTS, papers)


def _rows(scores: Scores, rule: str, overall_tasks: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the metrics and tags of a paper's rows; intervals are cut where scores end."""
    rows: dict[str, dict[str, Any]] = {}
    for of, found in over_seeds(scores, overall_tasks).items():
        name = "overall" if of.measure == rule else of.measure
        if name not in ("overall", *TASKS):
            continue
        tags = {Tag.ROW: of.variant, Tag.NOT_LEARNED: ""}
        row = rows.setdefault(of.variant, {"metrics": {"n": found.n}, "tags": tags})
        signed = TASKS[name].metric in CORRELATIONS if name in TASKS else rule == "plain"
        place = f"{BEST if of.split == 'dev' else TEST}/{name}"
        for end, value in (("", found.mean), ("/low", found.low), ("/high", found.high)):
            if value is not None:
                row["metrics"][place + end] = min(max(value, -1.0 if signed else 0.0), 1.0)
        if of.split == "dev" and name in TASKS and found.learned is False:
            tags = row["tags"]
            tags[Tag.NOT_LEARNED] = f"{tags[Tag.NOT_LEARNED]} {name}".strip()
    return rows
