"""The follower: the one process that copies what jobs report into MLflow.

It may be killed and started again at any moment. How far it came is a tag of each run
(`Tag.OFFSET`, a place in the attempt's log), stored after the points before it; the same point
(name, step, timestamp, value) sent twice is stored once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.base.files import read_json
from minbert.base.locks import take
from minbert.base.progress import counted
from minbert.spec.task import use_tasks_of
from minbert.store.plans import read_plan, records, stage_rows
from minbert.track.journal import FOLLOWER, Attempt, attempts
from minbert.track.runs import PARENTS, log_imported_runs
from minbert.track.store import (
    PROXIED,
    Tag,
    attempt_runs,
    check_store,
    first_line,
    note,
    open_store,
    say,
    tracking_uri,
    views,
)

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

_PATIENCE = 20.0
_LAST_SECONDS = 10.0


def follow(root: Path, plan: str | None, until: int | None) -> None:
    """Store what there is, and go on `until` that process ends; exit with 1 if anything is left.

    Without a name, the `plan` is the newest.
    Raises `UserError` for a URI that is no store (`store.check_store`).
    """
    check_store(root)
    plan = plan or next((name for name, _ in records(root)), None)
    if Follower(root, plan).follow(until):
        raise SystemExit(1)


class Follower:
    """Copies the attempts of results `root` into their store (see `store.tracking_uri`).

    `plan` names the record that says what the papers and tasks are.
    """

    def __init__(self, root: Path, plan: str | None = None) -> None:
        self.root = root.resolve()
        self.plan = plan
        record = read_plan(self.root, plan) if plan else {}
        use_tasks_of(record)
        self.facts = record.get("papers", {})
        self.keys = {row["key"] for row in stage_rows(record.get("variants", ()))}
        """Those of the plan's trainings, of which the last publication need not know."""
        self.failing = False
        self.left: list[str] = []
        """What could not be stored, and why."""
        self._client: MlflowClient | None = None
        self._runs: dict[str, Run] = {}
        """By the name of their attempt; their tags and status are kept up to date."""

    def follow(self, parent: int | None = None, interval: float = 2.0) -> int:
        """Store all that there is; return the number of runs left undone.

        With the process that started this one as `parent`, go on every `interval` seconds until
        that has ended, or SIGTERM asks for the end. Problems with the store are reported, never
        raised. A follower that works here already has `_PATIENCE` seconds to end.
        """
        asked: list[int] = []
        if parent:
            # A blocked signal would end the process by one of its libraries' threads.
            signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
        path = self.root / FOLLOWER
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as lock:
            if not take(lock, _PATIENCE):
                say(f"another follower already works on {path.parent}")
                return 1
            if self.plan:
                log_imported_runs(self.root, self.plan)
            while not asked and os.getppid() == parent:
                self.sweep()
                deadline = time.monotonic() + interval
                while not asked and time.monotonic() < deadline:
                    time.sleep(0.05)
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
                self._runs = attempt_runs(self._client)
            # Again for what depends on another run, or had changed there since it was read.
            for _ in range(2):
                self._store_all(self._client)
            self.failing = False
        except Exception as error:
            self._client = None
            if not self.failing:
                say(
                    f"the store at {tracking_uri(self.root)} does not answer; jobs go on, and "
                    f"their metrics are stored when it is back ({first_line(error)})"
                )
            self.failing = True

    def _store_all(self, client: MlflowClient) -> None:
        self.left, path, every = [], self.root / PARENTS, attempts(self.root)
        papers = read_json(path) if path.exists() else {}
        newest = {attempt.group: attempt.name for attempt in every}
        for attempt in every:
            try:
                if attempt.name not in self._runs:
                    about, _ = attempt.read()
                    if "experiment" in about:
                        self._create(client, attempt.name, about)
                run = self._runs.get(attempt.name)
                if run and run.info.lifecycle_stage == "active":
                    key, newer = attempt.group[0], newest[attempt.group]
                    rows = papers.get(run.data.tags[Tag.PAPER], {key: ""})
                    state = "no" if key in self.keys or key in rows else "not in the grid"
                    tags = {Tag.SUPERSEDED: state if newer == attempt.name else newer}
                    if above := self._runs.get(rows.get(key, "")):
                        tags["mlflow.parentRunId"] = above.info.run_id
                    self._store(client, attempt, run, tags)
            except Exception as error:
                self.left.append(f"{attempt.path}: {first_line(error)}")
                self._runs = attempt_runs(client)

    def _store(
        self, client: MlflowClient, attempt: Attempt, run: Run, tags: dict[str, str]
    ) -> None:
        """Store what is new of an attempt, and `tags` that it has because of other runs.

        Every step may be repeated.
        """
        from mlflow.entities import Metric, Param, RunTag

        # In this order: a job writes its last line, and then frees its lock.
        status, identity, known = run.info.status, run.info.run_id, run.data.tags
        killed = status == "RUNNING" and not attempt.alive()
        said, place = attempt.read(int(known.get(Tag.OFFSET, 0)))
        new = {**tags, Tag.OFFSET: str(place)}
        if killed:
            said = {"status": "KILLED", "ended": attempt.path.stat().st_mtime} | said
        elif known | new == known:
            return
        if Tag.ROW in said["tags"]:
            for tag, view in views(self.facts.get(known[Tag.PAPER]), rows=True).items():
                client.set_experiment_tag(run.info.experiment_id, tag, view)
        if said.get("status", status) != status:  # A row ends once.
            client.set_terminated(identity, said["status"], round(said["ended"] * 1000))
        if error := said.get("error"):
            new["minbert.error"] = error
        params = [Param(name, str(value)) for name, value in said["params"].items()]
        points = [Metric(name, of, round(at * 1000), n) for name, of, n, at in said["points"]]
        client.log_batch(identity, points, params)
        # The place comes last, as what is before it is not looked at again.
        new = said["tags"] | new
        client.log_batch(identity, tags=[RunTag(name, str(value)) for name, value in new.items()])
        self._runs[attempt.name] = client.get_run(identity)

    def _create(self, client: MlflowClient, name: str, about: Mapping[str, Any]) -> None:
        """Make an attempt's run, and its experiment, which is restored if it was deleted."""
        paper = about["experiment"]
        found, facts = client.get_experiment_by_name(paper), self.facts.get(paper)
        if found is None:
            tags = note(facts) | views(facts)
            # A server decides itself where files are.
            place = None if tracking_uri(self.root).startswith("http") else f"{PROXIED}{paper}"
            identity = client.create_experiment(paper, place, tags)
        else:
            identity = found.experiment_id
            if found.lifecycle_stage == "deleted":
                client.restore_experiment(identity)
                self._runs = attempt_runs(client)
        tags, started = {Tag.ATTEMPT: name, Tag.PAPER: paper}, round(about["started"] * 1000)
        self._runs[name] = client.create_run(identity, started, tags, about["name"])
