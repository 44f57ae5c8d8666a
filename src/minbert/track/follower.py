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
from minbert.store.plans import read_plan
from minbert.track.experiments import note, views
from minbert.track.journal import FOLLOWER, Attempt, attempts
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
        self.failing = False
        self._client: MlflowClient | None = None
        self._runs: dict[str, StoredRun] = {}
        self._why = ""

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
                say(f"another follower works on {path.parent}; leaving all to it")
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
        left = [attempt.name for attempt, _ in self.pending() if not attempt.alive()]
        if left and not self.failing:
            much = counted(len(left), "run")
            say(f"not stored yet, until the workflow's next start: {much}, as {self._why}")
        return len(left)

    def pending(self) -> list[tuple[Attempt, dict[str, str]]]:
        """Return the attempts that are not completely in the store, oldest first; at first all.

        With each are the tags that its run gets because of others: what replaced it, and the row
        above it. Imports no mlflow.
        """
        every, path = attempts(self.root), self.root / ROWS
        newest = {attempt.group: attempt.name for attempt in every}
        pages = read_json(path) if path.exists() else {}
        found: list[tuple[Attempt, dict[str, str]]] = []
        for attempt in every:
            run, key = self._runs.get(attempt.name), attempt.group[0]
            if run is None:
                found += [(attempt, {})] if attempt.run else []
                continue
            page = pages.get(run.tags[Tag.PAPER], {"keys": [key], "parents": {}})
            state = "no" if key in page["keys"] else "not in the grid"
            newer = newest[attempt.group]
            tags = {Tag.SUPERSEDED: state if newer == attempt.name else newer}
            if above := self._runs.get(page["parents"].get(key)):
                tags["mlflow.parentRunId"] = above.run_id
            if not run.deleted and (
                run.tags | tags != run.tags
                or (run.place < attempt.size() and run.place < attempt.read(run.place, 1)[1])
                or (run.status == "RUNNING" and not attempt.alive())
            ):
                found.append((attempt, tags))
        return found

    def sweep(self) -> None:
        """Store all that is new. Never raises: reports once that it fails or works again."""
        try:
            if self._client is None:
                if not self.pending():
                    return
                self._client = open_store(self.root)
                self._runs = _known(self._client)
            # Again for what depends on another run, or had changed there since it was read.
            for _ in range(2):
                for attempt, tags in self.pending():
                    try:
                        self._store(self._client, attempt, tags)
                    except Exception as error:
                        self._why = f"{attempt.path}: {first_line(error)}"
                        self._runs = _known(self._client)
        except Exception as error:
            self._client = None
            if not self.failing:
                say(
                    f"the store at {self.uri} does not answer; jobs go on, and their "
                    f"figures are stored when it is back ({first_line(error)})"
                )
            self.failing = True
        else:
            self.failing = False

    def _store(self, client: MlflowClient, attempt: Attempt, tags: dict[str, str]) -> None:
        """Store what is new of an attempt; every step may be repeated."""
        run = self._runs.get(attempt.name) or self._create(client, attempt)
        # In this order: a job writes its last line, and then frees its lock. No further than it is
        # now: a job that logs fast must not hold up the others.
        alive, size = attempt.alive(), attempt.size()
        while True:
            before = run.place
            said, place = attempt.read(before, _BATCH)
            if Tag.ROW in said["tags"]:
                for tag, view in views(self.facts.get(run.tags[Tag.PAPER]), rows=True).items():
                    client.set_experiment_tag(run.experiment, tag, view)
            if "status" in said:  # First, as what is before `place` is not looked at again.
                _end(client, run, said["status"], said["ended"])
            _log(client, run, said, tags | {Tag.OFFSET: str(place)})
            if not before < place < size:
                break
        if run.status == "RUNNING" and not alive:
            points = attempt.read()[0]["points"]
            _end(client, run, "KILLED", points[-1][-1] if points else attempt.run["started"])

    def _create(self, client: MlflowClient, attempt: Attempt) -> StoredRun:
        """Make the attempt's run, and its experiment, which is restored if it was deleted."""
        about = attempt.run
        paper = about["experiment"]
        found = client.get_experiment_by_name(paper)
        if found is None:
            place = None if is_remote(self.uri) else f"{PROXIED}{paper}"
            facts = self.facts.get(paper)
            identity = client.create_experiment(paper, place, note(facts) | views(facts))
        else:
            identity = found.experiment_id
            if found.lifecycle_stage == "deleted":
                client.restore_experiment(identity)
                self._runs = _known(client)
        tags = {Tag.ATTEMPT: attempt.name, Tag.PAPER: paper}
        started = _milliseconds(about["started"])
        run = StoredRun.of(client.create_run(identity, started, tags, about["name"]))
        self._runs[attempt.name] = run
        return run


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
