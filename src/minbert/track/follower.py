"""The follower: the one process that copies what jobs report into MLflow.

It may be killed and started again at any moment: a run is found again by its attempt's tag, the
same point (name, step, timestamp, value) sent twice is stored once, and the notes in each
attempt's folder (`cursor.json`, `stored.json`) only save time.
"""

import hashlib
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from minbert.base.errors import UserError
from minbert.base.locks import take
from minbert.base.process import process_start_time
from minbert.base.progress import counted
from minbert.spec.task import use_tasks_of
from minbert.store.plans import read_plan
from minbert.track import papers, writer
from minbert.track.arrived import log_imported_runs
from minbert.track.journal import FOLLOWER, TRACKING, Attempt, attempts
from minbert.track.rows import store_rows
from minbert.track.store import (
    GRID,
    Store,
    Tag,
    first_line,
    open_store,
    own_store,
    say,
    sqlite_path,
    tracking_uri,
)

_CURSOR = "cursor.json"
_STORED = "stored.json"
_LAST_SECONDS = 5.0
_NAMED = 3
_SWEEPS = 10
"""At most in a last pass, so that what fails once can fail again, after all others."""
# MLflow's error codes for a wrong request, as opposed to a failed connection.
_REFUSALS = {
    "INVALID_PARAMETER_VALUE",
    "PERMISSION_DENIED",
    "RESOURCE_DOES_NOT_EXIST",
    "RESOURCE_ALREADY_EXISTS",
    "BAD_REQUEST",
    "INVALID_STATE",
}
# Raised by a run whose files are not as they should be.
_BROKEN = (UserError, KeyError, ValueError, TypeError)


class Follower:
    """Copies the attempts of results `root` into the store at `uri` (see `store.tracking_uri`).

    `plan` names the record that says what the papers and tasks are; `draw` draws a run's curves.
    """

    def __init__(
        self,
        root: Path | str,
        uri: str | None = None,
        plan: str | None = None,
        draw: writer.Draw | None = None,
    ) -> None:
        self.root = Path(root).resolve()
        self.uri = tracking_uri(self.root, uri)
        self.draw = draw
        self.plan = plan
        record = {} if plan is None else read_plan(self.root, plan)
        use_tasks_of(record)
        # What MLflow says of a paper is of the whole grid.
        self.facts = {} if record.get("below") else record.get("papers", {})
        self.failing = False
        self._store: Store | None = None
        self._attempts: dict[str, Attempt] = {}
        self._runs: dict[str, writer.StoredRun] = {}
        self._experiments: set[str] = set()
        self._refused: set[str] = set()
        self._failed: dict[str, int] = {}
        self._described: set[str] = set()
        self._done: set[str] = set()
        # A store's URI may hold a password, so only its digest is written to disk. A store in the
        # results folder moves with it.
        named = self.uri.replace(own_store(self.root), "")
        self._digest = hashlib.sha256(named.encode()).hexdigest()[:16]

    def follow(self, until_pid: int | None = None, interval: float = 2.0) -> None:
        """Store what jobs write every `interval` seconds, until process `until_pid` has ended.

        If another follower works here, one with `until_pid` waits for its turn and one without
        ends. Problems with the store are reported, never raised.
        """
        born = process_start_time(until_pid) if until_pid is not None else ""

        def goes_on() -> bool:
            return until_pid is None or (born != "" and process_start_time(until_pid) == born)

        if until_pid is not None and threading.current_thread() is threading.main_thread():
            # Ctrl-C ends the workflow; the follower sees that, and stores what is left.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        with self._lock_file() as lock:
            if not take(lock, Path(lock.name)):
                outcome = "leaving" if until_pid is None else "waiting for it to end"
                say(f"another follower works on {self.root / TRACKING}; {outcome}")
                while not take(lock, Path(lock.name)):
                    if until_pid is None or not goes_on():
                        return
                    time.sleep(interval)
            self._tell_of_arrived()
            while goes_on():
                self.sweep()
                time.sleep(interval)
            # Jobs end with the workflow, but not at the same instant.
            deadline = time.monotonic() + _LAST_SECONDS
            self.sweep()
            while self.pending() and not self.failing and time.monotonic() < deadline:
                time.sleep(min(interval, 0.2))
                self.sweep()
            self._report_left()

    def finish(self, patience: float = 20.0) -> int:
        """Store all that there is; never raises because of the store. Return what is left undone.

        If another follower works here, waits up to `patience` seconds for it to do so.
        """
        deadline = time.monotonic() + patience
        with self._lock_file() as lock:
            while not take(lock, Path(lock.name)):
                if not self.pending(ended_only=True) or time.monotonic() > deadline:
                    break
                time.sleep(0.2)
            else:
                self._tell_of_arrived()
                for _ in range(_SWEEPS):
                    before = dict(self._failed)
                    self.sweep()
                    if before == self._failed:
                        break
        return self._report_left()

    def pending(self, ended_only: bool = False) -> list[Attempt]:
        """Return the attempts that are not completely in the store, oldest first.

        With `ended_only`, those whose job still runs are left out. Imports no mlflow.
        """
        for attempt in attempts(self.root):
            if attempt.name in self._attempts or attempt.name in self._refused:
                continue
            try:
                attempt.run["experiment"], attempt.group
            except _BROKEN as error:
                self._refused.add(attempt.name)
                say(f"{attempt.path / 'run.json'} cannot be read: {first_line(error)}")
            else:
                self._attempts[attempt.name] = attempt
        path = sqlite_path(self.uri)
        lost = self._store is None and path is not None and not path.exists()
        return [
            attempt
            for name, attempt in sorted(self._attempts.items())
            if name not in self._refused
            and (lost or (name not in self._done and not self._is_stored(attempt)))
            and not (ended_only and attempt.alive())
        ]

    def sweep(self) -> None:
        """Store all that is new. Never raises: reports once that it fails or works again."""
        try:
            if self.pending():
                self._store_all()
        except Exception as error:
            self._store = None
            if not self.failing:
                say(
                    f"the store at {self.uri} does not answer; jobs go on, and their "
                    f"figures are stored when it is back ({first_line(error)})"
                )
            self.failing = True
            return
        if self.failing:
            say(f"the store at {self.uri} answers again; nothing is lost")
        self.failing = False

    def _tell_of_arrived(self) -> None:
        if self.plan is None:
            return
        try:
            self._refused.update(log_imported_runs(self.root, self.plan))
        except (UserError, OSError) as error:
            self._refused.add("imported runs")
            say(f"imported runs are not in MLflow: {first_line(error)}")

    def _report_left(self) -> int:
        left = sorted({attempt.name for attempt in self.pending(ended_only=True)} | self._refused)
        if left:
            named = ", ".join(left[:_NAMED]) + (", ..." if len(left) > _NAMED else "")
            much = f"{counted(len(left), 'run')} ({named})"
            say(f"not stored yet, until the workflow's next start: {much}")
        return len(left)

    def _lock_file(self) -> IO[str]:
        path = self.root / FOLLOWER
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a", encoding="utf-8")

    def _store_all(self) -> None:
        store = self._connect()
        pending = self.pending()  # Again: now it is known which runs the store has.
        for name in sorted({attempt.run["experiment"] for attempt in pending} - self._described):
            self._describe(store, name)
            self._described.add(name)
        late: list[Exception] = []
        grids: list[tuple[Attempt, dict[str, Any]]] = []
        for attempt in sorted(pending, key=lambda attempt: attempt.name in self._failed):
            with self._alone(attempt, late):
                note = self._advance(store, attempt)
                if note and attempt.run["tags"].get(Tag.KIND) == GRID:
                    grids.append((attempt, note))
                else:
                    self._settle(attempt, note)
        for attempt, note in grids:
            with self._alone(attempt, late):
                self._store_grid(store, attempt)
                self._describe(store, attempt.run["experiment"])
                self._settle(attempt, note)
        if late:
            raise late[0]

    @contextmanager
    def _alone(self, attempt: Attempt, late: list[Exception]) -> Iterator[None]:
        """Keep what cannot be stored of one attempt from holding up the others.

        At its first failure the store is opened anew: it may have changed since, or be gone. An
        attempt that is refused twice waits for the next start. Any other second failure is added to
        `late`: it is tried again, after the others.
        """
        try:
            yield
        except Exception as error:
            refused = _is_refusal(error) or isinstance(error, _BROKEN)
            failed = self._failed.get(attempt.name, 0)
            self._failed[attempt.name] = min(failed + 1, 2)
            if failed == 0:
                self._store = None
                if not refused:
                    raise
            elif refused:
                self._refused.add(attempt.name)
            else:
                late.append(error)
            if failed == 1:
                say(f"{attempt.path}: not stored: {first_line(error)}")

    def _settle(self, attempt: Attempt, note: dict[str, Any] | None) -> None:
        """Note an attempt's end if it has come. Last: what was interrupted is done again."""
        if note:
            attempt.note(_STORED, note)
        self._failed.pop(attempt.name, None)

    def _describe(self, store: Store, paper: str) -> None:
        try:
            papers.describe(store, paper, self.facts.get(paper))
        except Exception as error:
            if not _is_refusal(error):
                raise
            say(f"no description was stored for '{paper}': {first_line(error)}")

    def _store_grid(self, store: Store, attempt: Attempt) -> None:
        """Store the rows of a grid's own run, and register its model."""
        names = sorted(n for n, a in self._attempts.items() if a.group == attempt.group)
        if attempt.name != names[-1]:
            return
        trained = {
            self._attempts[name].group: (self._attempts[name], self._runs[name])
            for name in sorted(self._runs.keys() & self._attempts.keys())
        }
        store_rows(store, attempt, names[0], trained)
        papers.register_best(store, attempt.run["experiment"])

    def _connect(self) -> Store:
        """Open the store, and learn which runs it has of the experiments we know."""
        if self._store is None:
            self._store = open_store(self.root, self.uri)
            self._experiments, self._runs = set(), {}
            self._done, self._described = set(), set()
        for name in {a.run["experiment"] for a in self._attempts.values()} - self._experiments:
            runs = writer.known_runs(self._store, name)
            for attempt in self._attempts.values():
                if attempt.run["experiment"] != name:
                    continue
                cursor = attempt.recall(_CURSOR)
                note = attempt.recall(_STORED) or cursor
                stored = runs.get(attempt.name)
                if stored is None and note and note.get("store", self._digest) == self._digest:
                    # The experiment was renamed, or the store is a new one.
                    stored = writer.known_run(self._store, note["run_id"])
                if stored is None:
                    continue
                if cursor.get("run_id") == stored.run_id:
                    stored.offset, stored.described = cursor["offset"], True
                runs[attempt.name] = stored
            self._runs.update(runs)
            self._experiments.add(name)
        return self._store

    def _is_stored(self, attempt: Attempt) -> bool:
        run = self._runs.get(attempt.name)
        if run is not None and run.deleted:
            return True  # It stays so.
        note = attempt.recall(_STORED)
        if note.get("store") != self._digest:
            return False
        if self._experiments and (run is None or run.run_id != note["run_id"]):
            return False
        # If locks do not work across machines, a job can seem dead and go on.
        if note["status"] == "KILLED" and "size" in note:
            return attempt.end() is None and attempt.size() <= int(note["size"])
        self._done.add(attempt.name)
        return True

    def _advance(self, store: Store, attempt: Attempt) -> dict[str, Any] | None:
        """Store what is new of one attempt; return the note on its end if it has ended."""
        # In this order: a job writes its last row, then its end, and then frees its lock.
        alive, end, size = attempt.alive(), attempt.end(), attempt.size()
        if attempt.name not in self._runs:
            self._runs[attempt.name] = writer.create(store, attempt)
        stored = self._runs[attempt.name]
        # Mark the older attempts of the same key and seed with the newest one's name.
        *older, newest = sorted(n for n, a in self._attempts.items() if a.group == attempt.group)
        for run in filter(None, map(self._runs.get, older)):
            if run.superseded != newest and not run.deleted:
                store.client.set_tag(run.run_id, Tag.SUPERSEDED, newest)
                run.superseded = newest
        if not stored.described:
            writer.describe(store, attempt, stored)
        # No further than it was at the start: a job that logs fast must not hold up the others.
        while stored.offset < size and writer.log_rows(store, attempt, stored):
            attempt.note(_CURSOR, {"run_id": stored.run_id, "offset": stored.offset})
        while attempt.problems:
            say(attempt.problems.pop(0))
        if end is None and alive:
            return None
        status = writer.close(store, attempt, stored, end, self.draw)
        note = {"store": self._digest, "run_id": stored.run_id, "status": status}
        return note if end else note | {"size": size}


def _is_refusal(error: Exception) -> bool:
    return getattr(error, "error_code", None) in _REFUSALS
