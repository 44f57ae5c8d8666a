"""The follower: the one process that copies what jobs report into MLflow.

It may be killed and started again at any moment. How far it came is a tag of each run
(`Tag.OFFSET`, a place in the attempt's log), stored together with the points before it, and the
same point (name, step, timestamp, value) sent twice is stored once.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.base.files import read_json
from minbert.base.locks import take
from minbert.base.process import process_start_time
from minbert.base.progress import counted
from minbert.spec.task import use_tasks_of
from minbert.store.plans import read_plan, stage_rows
from minbert.track.experiments import note, views
from minbert.track.journal import FOLLOWER, Attempt, attempts, newest_attempts
from minbert.track.rows import ROWS
from minbert.track.runs import log_imported_runs
from minbert.track.store import (
    PROXIED,
    Tag,
    first_line,
    is_remote,
    open_store,
    runs,
    say,
    tracking_uri,
)

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

_PATIENCE = 20.0
_LAST_SECONDS = 10.0
_BATCH = 900  # MLflow takes 1000 things at once, 100 of them parameters.
_LENGTH = 6000  # and as many characters of each


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

    @property
    def place(self) -> int:
        """The bytes of the attempt's log that are stored."""
        return int(self.tags.get(Tag.OFFSET, 0))


class Follower:
    """Copies the attempts of results `root` into their store (see `store.tracking_uri`).

    `plan` names the record that says what the papers and tasks are.
    """

    def __init__(self, root: Path | str, plan: str | None = None) -> None:
        self.root = Path(root).resolve()
        self.uri = tracking_uri(self.root)
        self.plan = plan
        record = {} if plan is None else read_plan(self.root, plan)
        use_tasks_of(record)
        self.facts = record.get("papers", {})
        self.keys = {row["key"] for row in stage_rows(record.get("variants", ()))}
        """Those of the plan's trainings, of which the last publication need not know."""
        self.failing = False
        self.left: list[str] = []
        """What could not be stored, and why."""
        self._client: MlflowClient | None = None
        self._runs: dict[str, StoredRun] = {}

    def follow(self, until_pid: int, interval: float = 2.0) -> int:
        """Store what jobs write every `interval` seconds, as `finish`.

        Ends after process `until_pid`, or when SIGTERM asks for it; handles signals from then on.
        """
        asked: list[int] = []
        # A blocked signal would end the process by one of its libraries' threads.
        signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # It ends the workflow, but not this.
        born = process_start_time(until_pid)

        def ended() -> bool:
            deadline = time.monotonic() + interval
            while not asked and time.monotonic() < deadline:
                time.sleep(0.05)
            return bool(asked) or not born or process_start_time(until_pid) != born

        return self.finish(ended)

    def finish(self, ended: Callable[[], bool] = lambda: True) -> int:
        """Store all that there is, until it has `ended`; return the number of runs left undone.

        Problems with the store are reported, never raised. A follower that works here already has
        `_PATIENCE` seconds to end.
        """
        path = self.root / FOLLOWER
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as lock:
            if not take(lock, _PATIENCE):
                say(f"another follower already works on {path.parent}")
                return 1
            if self.plan is not None:
                log_imported_runs(self.root, self.plan)
            self.sweep()
            while not ended():
                self.sweep()
            # Jobs end with the workflow, but not at the same instant.
            deadline = time.monotonic() + _LAST_SECONDS
            while any(of.alive() for of in attempts(self.root)) and time.monotonic() < deadline:
                time.sleep(0.2)
            self.sweep()
        if self.left and not self.failing:
            much = counted(len(self.left), "run")
            say(f"not stored yet, until the workflow's next start: {much}, as {self.left[0]}")
        return len(self.left) or self.failing

    def sweep(self) -> None:
        """Store all that is new. Never raises: reports once that the store fails.

        Imports no mlflow before there is anything to store.
        """
        try:
            if self._client is None:
                if not attempts(self.root):
                    return
                self._client = open_store(self.root)
                self._runs = _known(self._client)
            # Again for what depends on another run, or had changed there since it was read.
            for _ in range(2):
                self._store_all(self._client)
            self.failing = False
        except Exception as error:
            self._client = None
            if not self.failing:
                say(
                    f"the store at {self.uri} does not answer; jobs go on, and their "
                    f"metrics are stored when it is back ({first_line(error)})"
                )
            self.failing = True

    def _store_all(self, client: MlflowClient) -> None:
        self.left, path = [], self.root / ROWS
        pages = read_json(path) if path.exists() else {}
        newest = {group: of.name for group, of in newest_attempts(self.root).items()}
        for attempt in attempts(self.root):
            try:
                if about := attempt.run if attempt.name not in self._runs else None:
                    self._create(client, attempt.name, about)
                run = self._runs.get(attempt.name)
                if run and not run.deleted:
                    key, newer = attempt.group[0], newest[attempt.group]
                    page = pages.get(run.tags[Tag.PAPER], {"keys": [key], "parents": {}})
                    needed = key in self.keys or key in page["keys"]
                    state = "no" if needed else "not in the grid"
                    tags = {Tag.SUPERSEDED: state if newer == attempt.name else newer}
                    if above := self._runs.get(page["parents"].get(key)):
                        tags["mlflow.parentRunId"] = above.run_id
                    self._store(client, attempt, run, tags)
            except Exception as error:
                self.left.append(f"{attempt.path}: {first_line(error)}")
                self._runs = _known(client)

    def _store(
        self, client: MlflowClient, attempt: Attempt, run: StoredRun, tags: dict[str, str]
    ) -> None:
        """Store what is new of an attempt, and `tags` that it has because of other runs.

        Every step may be repeated.
        """
        # In this order: a job writes its last line, and then frees its lock. No further than it is
        # now: a job that logs fast must not hold up the others.
        alive, size = run.status != "RUNNING" or attempt.alive(), attempt.size()
        while run.place < size or run.tags | tags != run.tags:
            said, place = attempt.read(run.place, _BATCH)
            new = {**tags, Tag.OFFSET: str(place)}
            if run.tags | new == run.tags:  # The last line is not complete.
                break
            if Tag.ROW in said["tags"]:
                for tag, view in views(self.facts.get(run.tags[Tag.PAPER]), rows=True).items():
                    client.set_experiment_tag(run.experiment, tag, view)
            if "status" in said:  # First, as what is before `place` is not looked at again.
                _end(client, run, said["status"], said["ended"])
            _log(client, run, said, new)
        if run.status == "RUNNING" and not alive:
            points = attempt.read()[0]["points"]
            _end(client, run, "KILLED", points[-1][-1] if points else attempt.run["started"])

    def _create(self, client: MlflowClient, name: str, about: Mapping[str, Any]) -> None:
        """Make an attempt's run, and its experiment, which is restored if it was deleted."""
        paper = about["experiment"]
        found, facts = client.get_experiment_by_name(paper), self.facts.get(paper)
        if found is None:
            place = None if is_remote(self.uri) else f"{PROXIED}{paper}"
            identity = client.create_experiment(paper, place, note(facts) | views(facts))
        else:
            identity = found.experiment_id
            if found.lifecycle_stage == "deleted":
                client.restore_experiment(identity)
                self._runs = _known(client)
        tags, started = {Tag.ATTEMPT: name, Tag.PAPER: paper}, _milliseconds(about["started"])
        made = client.create_run(identity, started, tags, about["name"])
        self._runs[name] = StoredRun.of(made)


def _known(client: MlflowClient) -> dict[str, StoredRun]:
    """Return the runs, deleted ones too, by the name of their attempt."""
    found = runs(client, f"tags.`{Tag.ATTEMPT}` IS NOT NULL")
    return {run.data.tags[Tag.ATTEMPT]: StoredRun.of(run) for run in found}


def _end(client: MlflowClient, run: StoredRun, status: str, ended: float) -> None:
    client.set_terminated(run.run_id, status, _milliseconds(ended))
    run.status = status


def _log(
    client: MlflowClient, run: StoredRun, said: Mapping[str, Any], more: Mapping[str, str]
) -> None:
    """Store what a part of a log said, and `more` tags in the end."""
    from mlflow.entities import Metric, Param, RunTag

    error = {"minbert.error": said["error"]} if said.get("error") else {}
    tags = {name: str(value)[:_LENGTH] for name, value in (said["tags"] | error | more).items()}
    params = [Param(name, str(value)[:_LENGTH]) for name, value in said["params"].items()]
    for start in range(0, len(params), 90):
        client.log_batch(run.run_id, params=params[start : start + 90])
    points = [Metric(name, of, _milliseconds(at), step) for name, of, step, at in said["points"]]
    client.log_batch(run.run_id, points, tags=[RunTag(*tag) for tag in tags.items()])
    run.tags |= tags


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
