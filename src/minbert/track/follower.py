"""The follower: the one process that copies what jobs report into MLflow.

It may be killed and started again at any moment: how far it came is a tag of each run
(`store.Tag.OFFSET`), and the same point (name, step, timestamp, value) sent twice is stored once.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.base.locks import take
from minbert.base.process import process_start_time
from minbert.base.progress import counted
from minbert.spec.task import use_tasks_of
from minbert.store.plans import read_plan
from minbert.track import papers, writer
from minbert.track.journal import FOLLOWER, TRACKING, Attempt, attempts
from minbert.track.runs import log_imported_runs
from minbert.track.store import Store, Tag, first_line, open_store, say, tracking_uri

_PATIENCE = 20.0
_LAST_SECONDS = 5.0


class Follower:
    """Copies the attempts of results `root` into the store at `uri` (see `store.tracking_uri`).

    `plan` names the record that says what the papers and tasks are.
    """

    def __init__(self, root: Path | str, uri: str | None = None, plan: str | None = None) -> None:
        self.root = Path(root).resolve()
        self.uri = tracking_uri(self.root, uri)
        self.plan = plan
        record = {} if plan is None else read_plan(self.root, plan)
        use_tasks_of(record)
        # What MLflow says of a paper is of the whole grid.
        self.facts = {} if record.get("below") else record.get("papers", {})
        self.failing = False
        self._store: Store | None = None
        self._runs: dict[str, writer.StoredRun] = {}
        self._pages: dict[str, Any] = {}
        self._told: set[str] = set()

    def follow(self, until_pid: int | None = None, interval: float = 2.0) -> int:
        """Store what jobs write every `interval` seconds; return the number of runs left undone.

        Ends after process `until_pid`, or when SIGTERM asks for it; what is left is stored first.
        Problems with the store are reported, never raised.
        """
        # Ctrl-C ends the workflow, which the follower outlives.
        waits = {signal.SIGTERM} if until_pid is None else {signal.SIGTERM, signal.SIGINT}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, waits)
        try:
            return self._follow(until_pid, interval)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _follow(self, until_pid: int | None, interval: float) -> int:
        born = "" if until_pid is None else process_start_time(until_pid)
        with self._turn() as ours:
            if not ours:
                return 1
            while until_pid is None or (born and process_start_time(until_pid) == born):
                self.sweep()
                if signal.sigtimedwait({signal.SIGTERM}, interval):
                    break
            # Jobs end with the workflow, but not at the same instant.
            deadline = time.monotonic() + _LAST_SECONDS
            self.sweep()
            while any(one.alive() for one in self.pending()) and time.monotonic() < deadline:
                time.sleep(min(interval, 0.2))
            self.sweep()
        return self._report_left()

    def finish(self) -> int:
        """Store all that there is; never raises because of the store. Return what is left undone.

        A follower that works here already has `_PATIENCE` seconds to end.
        """
        with self._turn() as ours:
            if not ours:
                return 1
            self.sweep()
        return self._report_left()

    def pending(self) -> list[Attempt]:
        """Return the attempts that are not known to be completely in the store, oldest first.

        All are, before the store was asked. Imports no mlflow.
        """
        every = attempts(self.root)
        return [one for one in every if not writer.is_stored(one, self._runs.get(one.name))]

    def sweep(self) -> None:
        """Store all that is new. Never raises: reports once that it fails or works again."""
        try:
            if self._store is None and (self.pending() or self._new_pages()):
                store = open_store(self.root, self.uri)
                self._runs, self._store = writer.known_runs(store), store
            for attempt in self.pending():
                self._store_one(attempt.name, self._advance, attempt)
            for paper in self._new_pages():  # Last, as rows stand above the others' runs.
                self._store_one(paper, self._store_page, paper)
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

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Yield whether this is the only follower here; then runs that came in bundles are told."""
        path = self.root / FOLLOWER
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as lock:
            ours = take(lock, _PATIENCE)
            if not ours:
                say(f"another follower works on {self.root / TRACKING}; leaving all to it")
            elif self.plan is not None:
                try:
                    log_imported_runs(self.root, self.plan)
                except (UserError, OSError) as error:
                    say(f"imported runs are not in MLflow: {first_line(error)}")
            yield ours

    def _new_pages(self) -> list[str]:
        """Return the papers of whose rows it is not known that they are in the store."""
        found = {path.stem: read_json(path) for path in (self.root / TRACKING).glob("*.json")}
        return [paper for paper, page in found.items() if self._pages.get(paper) != page["written"]]

    def _report_left(self) -> int:
        """Report what is not stored of jobs that have ended, if the store answers; return it."""
        left = [attempt.name for attempt in self.pending() if not attempt.alive()]
        left += self._new_pages()
        if left and not self.failing:
            much = counted(len(left), "run")
            say(f"not stored yet, until the workflow's next start: {much}, as {left[0]}")
        return len(left)

    def _store_one(self, name: str, put: Callable[[Store, Any], None], what: Any) -> None:
        """Store one thing; report once what keeps it alone from being stored.

        Raises if the store does not answer.
        """
        assert self._store is not None
        for _ in range(2):
            try:
                put(self._store, what)
                self._told.discard(name)
                return
            except Exception as error:
                why = first_line(error)
                # It may have changed there since it was read: by another user, or as a new store.
                self._runs = writer.known_runs(self._store)
        if name not in self._told:
            say(f"{self.root / TRACKING / name}: not stored: {why}")
        self._told.add(name)

    def _advance(self, store: Store, attempt: Attempt) -> None:
        if (run := self._runs.get(attempt.name)) is None:
            paper = attempt.run["experiment"]
            experiment = store.experiment(paper)
            papers.describe(store, experiment, self.facts.get(paper))
            run = self._runs[attempt.name] = writer.create(store, attempt, experiment)
        writer.advance(store, attempt, run)

    def _store_page(self, store: Store, paper: str) -> None:
        page = read_json(self.root / TRACKING / f"{paper}.json")
        own = writer.page_runs(store, page).get("")
        if own is None or own.tags.get(Tag.STORED) != str(page["written"]):
            trained: dict[str, list[writer.StoredRun]] = {}
            for one in attempts(self.root):
                if one.newer is None and one.name in self._runs:
                    trained.setdefault(one.group[0], []).append(self._runs[one.name])
            writer.store_page(store, paper, page, trained)
            papers.show_rows(store, store.experiment(paper), self.facts.get(paper))
        self._pages[paper] = page["written"]
