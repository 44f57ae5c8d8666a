"""The follower: the one process that copies what jobs report into MLflow.

It may be killed and started again at any moment: how far it came is a tag of each run
(`store.Tag.OFFSET`), and the same point (name, step, timestamp, value) sent twice is stored once.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.locks import take
from minbert.base.process import process_start_time
from minbert.base.progress import counted
from minbert.spec.grid import ALL
from minbert.spec.task import use_tasks_of
from minbert.store.plans import read_plan
from minbert.track import papers, writer
from minbert.track.journal import FOLLOWER, TRACKING, Attempt, attempts
from minbert.track.rows import store_rows
from minbert.track.runs import log_imported_runs
from minbert.track.store import Store, first_line, open_store, say, tracking_uri

_PATIENCE = 20.0
_LAST_SECONDS = 5.0
_NAMED = 3


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
        self._runs: dict[str, writer.StoredRun] = {}
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
            while not self.failing and self._running() and time.monotonic() < deadline:
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
        return [attempt for attempt in attempts(self.root) if not self._is_stored(attempt)]

    def sweep(self) -> None:
        """Store all that is new. Never raises: reports once that it fails or works again."""
        try:
            if self.pending():
                if self._store is None:
                    self._store = open_store(self.root, self.uri)
                    self._runs = writer.known_runs(self._store)
                # Grids come last, as their rows stand above the runs of their seeds.
                for attempt in sorted(self.pending(), key=lambda one: one.group[1] == ALL):
                    self._store_one(self._store, attempt)
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
            ours = take(lock, path, _PATIENCE)
            if not ours:
                say(f"another follower works on {self.root / TRACKING}; leaving all to it")
            elif self.plan is not None:
                try:
                    log_imported_runs(self.root, self.plan)
                except (UserError, OSError) as error:
                    say(f"imported runs are not in MLflow: {first_line(error)}")
            yield ours

    def _running(self) -> bool:
        return any(attempt.name not in self._told for attempt in self.pending())

    def _report_left(self) -> int:
        """Report what is not stored of jobs that have ended, if the store answers; return it."""
        left = sorted(attempt.name for attempt in self.pending() if not attempt.alive())
        if left and not self.failing:
            named = ", ".join(left[:_NAMED]) + (", ..." if len(left) > _NAMED else "")
            much = f"{counted(len(left), 'run')} ({named})"
            say(f"not stored yet, until the workflow's next start: {much}")
        return len(left)

    def _is_stored(self, attempt: Attempt) -> bool:
        run = self._runs.get(attempt.name)
        if run is None:
            return False
        if run.deleted:
            return True  # It stays so.
        # If locks do not work across machines, a job can seem dead and go on.
        killed = run.status == "KILLED" and not attempt.status and not attempt.has_more(run.offset)
        return attempt.newer in (None, run.superseded) and (run.ended or killed)

    def _store_one(self, store: Store, attempt: Attempt) -> None:
        """Store what is new of an attempt; report once what keeps it alone from being stored.

        Raises if the store does not answer.
        """
        for _ in range(2):
            try:
                self._advance(store, attempt)
                self._told.discard(attempt.name)
                return
            except Exception as error:
                why = first_line(error)
                # It may have changed there since it was read: by another user, or as a new store.
                self._runs.pop(attempt.name, None)
                self._runs |= writer.known_runs(store, attempt.name)
        if attempt.name not in self._told:
            say(f"{attempt.path}: not stored: {why}")
        self._told.add(attempt.name)

    def _advance(self, store: Store, attempt: Attempt) -> None:
        # In this order: a job writes its last row, then its end, and then frees its lock.
        alive, end, size = attempt.alive(), attempt.end(), attempt.size()
        run = self._runs.get(attempt.name)
        if run is None:
            run = self._runs[attempt.name] = self._create(store, attempt)
        if run.deleted:
            return
        if attempt.newer not in (None, run.superseded):
            store.supersede(run.run_id, attempt.newer)
            run.superseded = attempt.newer
        if run.ended:
            return
        if not run.described:
            writer.describe(store, attempt, run)
        # No further than it was at the start: a job that logs fast must not hold up the others.
        while run.offset < size and writer.log_rows(store, attempt, run):
            pass
        while attempt.problems:
            say(attempt.problems.pop(0))
        if end is None and alive:
            return
        writer.close(store, attempt, run, end, self.draw)
        if end is not None:
            if attempt.group[1] == ALL and attempt.newer is None:
                self._store_grid(store, attempt, run)
            writer.set_ended(store, run)

    def _create(self, store: Store, attempt: Attempt) -> writer.StoredRun:
        paper = attempt.run["experiment"]
        experiment = store.experiment(paper)
        if all(run.experiment != experiment for run in self._runs.values()):
            papers.describe(store, paper, self.facts.get(paper))
        return writer.create(store, attempt, experiment)

    def _store_grid(self, store: Store, attempt: Attempt, run: writer.StoredRun) -> None:
        """Store the rows of a grid's own run, and register its model."""
        found = attempts(self.root)
        first = next(one.name for one in found if one.group == attempt.group)
        trained = {
            one.group: self._runs[one.name]
            for one in found
            if one.newer is None and one.group[1] != ALL and one.name in self._runs
        }
        paper = attempt.run["experiment"]
        store_rows(store, attempt, run.experiment, first, trained)
        papers.register_best(store, attempt, run)
        papers.describe(store, paper, self.facts.get(paper), run.run_id)
