"""The follower: the one process that copies what jobs wrote into MLflow.

It may be killed and started again at any moment. A run is found again by its attempt's tag, and
the same point (name, step, timestamp, value) sent twice is stored once; the notes it leaves in
each attempt's folder (`cursor.json`, `stored.json`) save time and nothing else.
"""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minbert.grid.node import read_listing
from minbert.track import registry, writer
from minbert.track.attempts import Attempt, attempts
from minbert.track.describe import SUPERSEDED_TAG
from minbert.track.location import sqlite_path, tracking_uri
from minbert.track.single import Watched, only_one, try_lock
from minbert.track.store import Store, open_store, say

_CURSOR = "cursor.json"
_STORED = "stored.json"
_LAST_SECONDS = 5.0
# What MLflow says when a request is wrong, not the connection: other attempts may go on.
_REFUSALS = {
    "INVALID_PARAMETER_VALUE",
    "RESOURCE_DOES_NOT_EXIST",
    "RESOURCE_ALREADY_EXISTS",
    "BAD_REQUEST",
    "INVALID_STATE",
}


class Follower:
    """Copies the attempts of results `root` into the store at `uri`. Holds no lock by itself."""

    def __init__(self, root: Path, uri: str, papers: Mapping[str, Any] | None = None) -> None:
        """Nothing is opened until there is something to store; `papers` are the plan's facts."""
        self.root = root
        self.papers = papers
        self.uri = uri
        self.failing = False
        self._store: Store | None = None
        self._attempts: dict[str, Attempt] = {}
        self._runs: dict[str, writer.StoredRun] = {}
        self._experiments: set[str] = set()
        self._refused: set[str] = set()
        self._done: set[str] = set()
        # A store's URI may hold a password, so that only its digest is written to disk.
        self._digest = hashlib.sha256(uri.encode()).hexdigest()[:16]

    def pending(self, ended_only: bool = False) -> list[Attempt]:
        """Return the attempts that are not all in the store, oldest first; imports no mlflow.

        With `ended_only`, those whose job still runs are left out.
        """
        for attempt in attempts(self.root):
            if attempt.name not in self._attempts and attempt.name not in self._refused:
                self._meet(attempt)
        path = sqlite_path(self.uri)
        lost = self._store is None and path is not None and not path.exists()
        found = [
            attempt
            for name, attempt in sorted(self._attempts.items())
            if name not in self._refused
            and (lost or (name not in self._done and not self._is_stored(attempt)))
        ]
        return [a for a in found if not a.alive()] if ended_only else found

    def _meet(self, attempt: Attempt) -> None:
        try:
            attempt.run["experiment"], attempt.group
        except (KeyError, ValueError, TypeError) as error:
            self._refused.add(attempt.name)
            say(f"{attempt.path / 'run.json'} cannot be read: {_first_line(error)}")
            return
        self._attempts[attempt.name] = attempt

    def sweep(self) -> None:
        """Store all that is new. Never raises: says once that it fails, and once that it works."""
        try:
            if todo := self.pending():
                self._store_all(todo)
        except Exception as error:
            self._store = None
            if not self.failing:
                say(
                    f"the store at {self.uri} does not answer; jobs go on, and their "
                    f"figures are stored when it is back ({_first_line(error)})"
                )
            self.failing = True
            return
        if self.failing:
            say(f"the store at {self.uri} answers again; nothing is lost")
        self.failing = False

    def _store_all(self, todo: list[Attempt]) -> None:
        store = self._connect()
        todo = self.pending()
        closed: list[tuple[Attempt, dict[str, Any]]] = []
        for attempt in todo:
            with self._refusal(attempt):
                note = self._advance(store, attempt)
                if note is not None:
                    closed.append((attempt, note))
        for name in sorted({attempt.run["experiment"] for attempt, _ in closed}):
            try:
                registry.point_at_best(store, name)
                store.describe_again(name)
            except Exception as error:
                if not _is_refusal(error):
                    raise
                say(f"no model registered for '{name}': {_first_line(error)}")
        # Last of all, so that whatever was cut short before is done again.
        for attempt, note in closed:
            attempt.note(_STORED, note)

    def _connect(self) -> Store:
        """Open the store, and learn which runs it has of the experiments we know."""
        if self._store is None:
            self._store = open_store(self.root, self.uri, self.papers)
            self._experiments.clear()
            self._runs.clear()
            self._done.clear()
        for name in {a.run["experiment"] for a in self._attempts.values()} - self._experiments:
            runs = writer.known_runs(self._store, self._store.experiment(name))
            for attempt, stored in runs.items():
                known = self._attempts.get(attempt)
                cursor = known.recall(_CURSOR) if known else {}
                if cursor.get("run_id") == stored.run_id:
                    stored.offset = cursor["offset"]
                    stored.described = True
            self._runs.update(runs)
            self._experiments.add(name)
        return self._store

    def _is_stored(self, attempt: Attempt) -> bool:
        note = attempt.recall(_STORED)
        if note.get("store") != self._digest:
            return False
        if self._experiments and (
            attempt.name not in self._runs or self._runs[attempt.name].run_id != note["run_id"]
        ):
            return False
        # Where locks do not cross machines, a job can seem dead and go on.
        if note["status"] == "KILLED":
            return attempt.end() is None and attempt.size() <= int(note["size"])
        self._done.add(attempt.name)
        return True

    def _advance(self, store: Store, attempt: Attempt) -> dict[str, Any] | None:
        """Store what is new of one attempt; return the note on its end if it has ended."""
        # In this order: a job writes its last row, then its end, and then lets its lock go.
        alive = attempt.alive()
        end = attempt.end()
        size = attempt.size()
        if attempt.name not in self._runs:
            self._runs[attempt.name] = writer.create(store, attempt)
        stored = self._runs[attempt.name]
        self._supersede(store, attempt)
        if not stored.described:
            writer.describe(store, attempt, stored)
        while writer.log_rows(store, attempt, stored):
            attempt.note(_CURSOR, {"run_id": stored.run_id, "offset": stored.offset})
        while attempt.problems:
            say(attempt.problems.pop(0))
        if end is None and alive:
            return None
        status = writer.close(store, attempt, stored, end)
        return {"store": self._digest, "run_id": stored.run_id, "status": status, "size": size}

    def _supersede(self, store: Store, newest: Attempt) -> None:
        """Mark the older attempts of the same key and seed with the newest one's name."""
        groups = defaultdict(list)
        for attempt in self._attempts.values():
            groups[attempt.group].append(attempt.name)
        names = sorted(groups[newest.group])
        for name in names[:-1]:
            older = self._runs.get(name)
            if older is not None and older.superseded != names[-1]:
                store.client.set_tag(older.run_id, SUPERSEDED_TAG, names[-1])
                older.superseded = names[-1]

    @contextmanager
    def _refusal(self, attempt: Attempt) -> Iterator[None]:
        """Let an attempt that the store refuses not stop the others; it is tried at next start."""
        try:
            yield
        except Exception as error:
            if not _is_refusal(error) and not isinstance(error, (KeyError, ValueError, TypeError)):
                raise
            self._refused.add(attempt.name)
            say(f"{attempt.path}: not stored: {_first_line(error)}")


def follow(
    root: Path | str,
    uri: str | None = None,
    until_pid: int | None = None,
    interval: float = 2.0,
    stamp: str | None = None,
) -> None:
    """Store what jobs write under `root` every `interval` seconds, as the only writer.

    Goes on until the process `until_pid` is gone, and then makes a last pass. While another
    follower works here, one with `until_pid` waits for its turn and one without leaves. Troubles
    with the store are told, never raised.
    """
    root = Path(root).resolve()
    watched = None if until_pid is None else Watched(until_pid)
    if watched is not None and threading.current_thread() is threading.main_thread():
        # Ctrl-C ends the workflow; the follower sees that, and stores what is left.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    follower = Follower(root, tracking_uri(root, uri), _papers(root, stamp))
    with only_one(root, watched, interval) as mine:
        if not mine:
            return
        while watched is None or watched.lives():
            follower.sweep()
            time.sleep(interval)
        # Jobs end with the workflow, though not in the same instant.
        deadline = time.monotonic() + _LAST_SECONDS
        follower.sweep()
        while follower.pending() and not follower.failing and time.monotonic() < deadline:
            time.sleep(min(interval, 0.2))
            follower.sweep()
        _say_left(follower)


def finish(
    root: Path | str, uri: str | None = None, patience: float = 20.0, stamp: str | None = None
) -> None:
    """Store all that there is, in one pass, and return; never raises because of the store.

    While a follower works here, this waits up to `patience` seconds for it to store what ended.
    """
    root = Path(root).resolve()
    follower = Follower(root, tracking_uri(root, uri), _papers(root, stamp))
    deadline = time.monotonic() + patience
    while True:
        with try_lock(root) as mine:
            if mine:
                follower.sweep()
                break
        if not follower.pending(ended_only=True) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    _say_left(follower)


def _papers(root: Path, stamp: str | None) -> dict[str, Any]:
    """Return what the plan of this stamp says of each paper; nothing without a stamp."""
    return {} if stamp is None else dict(read_listing(root, stamp)["papers"])


def _say_left(follower: Follower) -> None:
    if left := len(follower.pending(ended_only=True)):
        say(f"{left} runs are not stored yet; the next start of the workflow stores them")


def _is_refusal(error: Exception) -> bool:
    return getattr(error, "error_code", None) in _REFUSALS


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
