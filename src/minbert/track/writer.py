"""Runs into the store: those of attempts, and those of a paper's rows. Every step may be repeated.

A run's tag `Tag.OFFSET` says how much of the attempt is stored: nothing yet (no tag), its
parameters and so many bytes of its history, or all (`ENDED`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minbert.spec.protocol import Measured
from minbert.track.journal import Attempt
from minbert.track.rows import GRID, ROW
from minbert.track.store import ARTIFACTS, Store, Tag, is_remote

if TYPE_CHECKING:
    from mlflow.entities import Run

METRICS_PER_BATCH = 900  # MLflow takes 1000 values at once, 100 of them parameters.
ENDED = "ended"
_PARAMS_PER_BATCH = 90
_PARAM_LENGTH = 6000


@dataclass
class StoredRun:
    """What the store holds of a run."""

    run_id: str
    experiment: str
    status: str
    deleted: bool
    tags: dict[str, str]

    @classmethod
    def of(cls, run: Run) -> StoredRun:
        """Take what is needed of MLflow's own record."""
        info = run.info
        deleted = info.lifecycle_stage == "deleted"
        return cls(info.run_id, info.experiment_id, info.status, deleted, run.data.tags)

    def mark(self, store: Store, tag: str, value: str | None) -> None:
        """Set a tag, or take it away, unless it is so already."""
        if value is None and tag in self.tags:
            store.client.delete_tag(self.run_id, tag)
            del self.tags[tag]
        elif value is not None and self.tags.get(tag) != value:
            store.client.set_tag(self.run_id, tag, value)
            self.tags[tag] = value


def metric_name(row: Measured) -> str:
    """Return MLflow's name of a metric; characters that it does not take become `_`."""
    return re.sub(r"[^\w/. :-]", "_", f"{row.split}/{row.task}/{row.metric}")


def known_runs(store: Store) -> dict[str, StoredRun]:
    """Return the runs, deleted ones too, by the name of their attempt."""
    found = store.runs(f"tags.`{Tag.ATTEMPT}` IS NOT NULL")
    return {run.data.tags[Tag.ATTEMPT]: StoredRun.of(run) for run in found}


def create(store: Store, attempt: Attempt, experiment: str) -> StoredRun:
    """Make the attempt's run. Only a process that holds the follower's lock may call this."""
    run = attempt.run
    own = {Tag.ATTEMPT: attempt.name, Tag.KEY: run["key"], Tag.SEED: run["seed"]}
    tags = {**run["tags"], **own, "minbert.host": run["host"]}
    return _create(store, experiment, run["name"], run["started"], tags)


def _create(
    store: Store, experiment: str, name: str, started: float, tags: Mapping[str, Any]
) -> StoredRun:
    source = {"mlflow.source.name": "minbert", "mlflow.source.type": "JOB"}
    every = _strings({**tags, **source})
    made = store.client.create_run(experiment, milliseconds(started), every, run_name=name)
    return StoredRun.of(made)


def advance(store: Store, attempt: Attempt, run: StoredRun) -> None:
    """Store what is new of an attempt: its parameters, values, and how it ended."""
    # In this order: a job writes its last row, then its end, and then frees its lock.
    alive, end, size = attempt.alive(), attempt.end(), attempt.size()
    if attempt.newer:
        run.mark(store, Tag.SUPERSEDED, attempt.newer)
    given = attempt.run["params"]
    if Tag.OFFSET not in run.tags:
        _log(store, run, params=given)
        run.mark(store, Tag.OFFSET, "0")
    # No further than it was at the start: a job that logs fast must not hold up the others.
    while run.tags[Tag.OFFSET] != ENDED and (at := int(run.tags[Tag.OFFSET])) < size:
        rows, offset = attempt.rows(at, METRICS_PER_BATCH)
        if offset == at:
            break
        _log(store, run, [(metric_name(r), r.value, r.time, r.step) for r in rows])
        run.mark(store, Tag.OFFSET, str(offset))
    if run.tags[Tag.OFFSET] == ENDED or (end is None and alive):
        return
    how: dict[str, Any] = {"params": {}, "tags": {}, "metrics": {}, "step": 0, "error": None}
    how |= end or {"status": "KILLED", "ended": attempt.changed()}
    metrics = [(name, value, how["ended"], how["step"]) for name, value in how["metrics"].items()]
    new = {name: value for name, value in how["params"].items() if name not in given}
    error = {"minbert.error": how["error"]} if how["error"] else {}
    _log(store, run, metrics, new, how["tags"] | error)
    store.client.set_terminated(run.run_id, how["status"], milliseconds(how["ended"]))
    run.status = how["status"]
    if end is not None:  # Without it, it may be a job whose lock does not reach this machine.
        run.mark(store, Tag.OFFSET, ENDED)


def is_stored(attempt: Attempt, run: StoredRun | None) -> bool:
    """Whether nothing of the attempt is left to be stored; a deleted run stays so."""
    if run is None or run.deleted:
        return run is not None
    if attempt.newer and run.tags.get(Tag.SUPERSEDED) != attempt.newer:
        return False
    place = run.tags.get(Tag.OFFSET, "0")
    killed = run.status == "KILLED" and attempt.end() is None
    return place == ENDED or (killed and attempt.rows(int(place), 1)[1] == int(place))


def page_runs(store: Store, page: Mapping[str, Any]) -> dict[str, StoredRun]:
    """Return the runs that show a paper's page: by variant those of rows, and its own as ''."""
    runs = map(StoredRun.of, store.runs(f"tags.`{Tag.PAGE}` = '{page['id']}'"))
    shown = (run for run in runs if not run.deleted and Tag.SUPERSEDED not in run.tags)
    return {run.tags.get(Tag.ROW, ""): run for run in shown}


def store_page(
    store: Store, paper: str, page: Mapping[str, Any], trained: Mapping[str, Sequence[StoredRun]]
) -> None:
    """Store what `rows.record_grids` wrote of a paper: a run for each row, and one with its files.

    Rows are found again by the page's id, as results folders may share a server. One that the table
    no longer has is marked superseded; so is each of `trained`, the newest runs by key, whose stage
    no variant has any more. The page's own run is marked last: what was interrupted is done again.
    """
    written, stamp = page["written"], str(page["written"])
    old, shown = page_runs(store, page), {}
    experiment = old[""].experiment if "" in old else store.experiment(paper)
    for row in [{"variant": "", "metrics": {}, "tags": {}}, *page["rows"]]:
        name, metrics = row["variant"], row["metrics"]
        if (run := old.pop(name, None)) is None:
            own = {Tag.KIND: ROW, Tag.ROW: name} if name else {Tag.KIND: GRID}
            run = _create(store, experiment, name or GRID, written, {**own, Tag.PAGE: page["id"]})
        points = [(metric, value, written, 0) for metric, value in metrics.items()]
        _log(store, run, points, {"variant": name or "(all)"}, row["tags"])
        store.client.set_terminated(run.run_id, "FINISHED", milliseconds(written))
        shown[name] = run
    for run in old.values():
        run.mark(store, Tag.SUPERSEDED, stamp)
    _attach(store, paper, shown[""].run_id, page["files"])
    for key, runs in trained.items():
        above = shown.get(page["parents"].get(key))
        for run in runs:
            if run.deleted or run.experiment != experiment:  # MLflow nests within one.
                continue
            if above is not None:
                run.mark(store, Tag.PARENT, above.run_id)
            run.mark(store, Tag.SUPERSEDED, None if key in page["keys"] else stamp)
    shown[""].mark(store, Tag.STORED, stamp)


def _attach(store: Store, paper: str, run_id: str, names: Sequence[str]) -> None:
    """Put files of the results folder among a run's artifacts."""
    for name in names:
        path = store.root / name
        if is_remote(store.uri):
            store.client.log_artifact(run_id, str(path), str(path.parent.relative_to(store.root)))
        else:
            target = store.root / ARTIFACTS / paper / run_id / "artifacts" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def _log(
    store: Store,
    run: StoredRun,
    metrics: Sequence[tuple[str, float, float, int]] = (),
    params: Mapping[str, Any] = {},
    tags: Mapping[str, Any] = {},
) -> None:
    """Store metrics (name, value, time, step), of which a batch has room, parameters and tags."""
    from mlflow.entities import Metric, Param, RunTag

    points = [Metric(name, value, milliseconds(when), step) for name, value, when, step in metrics]
    marks = [RunTag(name, value) for name, value in _strings(tags).items()]
    every = [Param(name, value[:_PARAM_LENGTH]) for name, value in _strings(params).items()]
    for start in range(0, len(every) or 1, _PARAMS_PER_BATCH):
        some = every[start : start + _PARAMS_PER_BATCH]
        store.client.log_batch(run.run_id, points, some, marks)


def _strings(values: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in values.items()}


def milliseconds(seconds: float) -> int:
    """Return a time as MLflow has it."""
    return round(seconds * 1000)
