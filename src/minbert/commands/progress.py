"""While the grid runs: a line with the jobs that are done, that run now, and the time left.

It counts the events that Snakemake logs when a job starts, ends or fails, on this machine or on a
cluster. A thread of Snakemake's own process prints the lines, so it ends with Snakemake.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake_interface_logger_plugins.common import LogEvent

from minbert.base.progress import counted, duration
from minbert.plan.cost import Costs
from minbert.plan.describe import title
from minbert.plan.difference import some
from minbert.plan.plan import Plan
from minbert.track.journal import newest_attempts

OTHERS = 4.0
"""Seconds that other jobs are expected to take, and that a training takes to start and to end."""
REPLACED = {
    LogEvent.JOB_INFO,
    LogEvent.GROUP_INFO,
    LogEvent.SHELLCMD,
    LogEvent.JOB_STARTED,
    LogEvent.JOB_FINISHED,
    LogEvent.PROGRESS,
}
"""Events that these lines replace on the console; Snakemake's log file has them all."""


class Work(NamedTuple):
    """A job of Snakemake's: its rule, and for a training the key and seed of what it makes."""

    rule: str
    key: str = ""
    seed: int | None = None

    @classmethod
    def of(cls, rule: str, wildcards: Mapping[str, str] | None) -> Work:
        """Return the job of a rule, perhaps of another workflow, with these wildcards."""
        if rule != "train" or not wildcards:
            return cls(rule, (wildcards or {}).get("key", ""))
        return cls(rule, wildcards["key"], int(wildcards["seed"]))


class Progress(logging.Handler):
    """The lines of one workflow of `plan`, whose `jobs` are to run."""

    def __init__(self, plan: Plan, jobs: Sequence[Work]) -> None:
        super().__init__()
        self.plan, self.jobs = plan, jobs
        self.running: dict[int, tuple[Work, float]] = {}
        """By Snakemake's number, with the time of each start."""
        self.done: list[Work] = []
        self.failed: dict[int, Work] = {}
        """Those that failed, until they are tried again."""
        self.started = time.monotonic()
        costs = Costs(plan)
        nodes = {w: plan.nodes["train", w.key] for w in jobs if w.rule == "train"}
        self._expected = {w: OTHERS + costs.of(node).seconds for w, node in nodes.items()}
        self._stop = threading.Event()
        self._console: list[logging.Handler] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Count one record, if it is an event of a job."""
        event, said = getattr(record, "event", None), record.__dict__
        number = said.get("jobid", said.get("job_id", 0))
        if event == LogEvent.JOB_INFO and said["rule_name"] != "all":
            self.failed.pop(number, None)
            work = Work.of(said["rule_name"], said.get("wildcards"))
            self.running[number] = work, time.monotonic()
        elif event == LogEvent.JOB_FINISHED and number in self.running:
            self.done.append(self.running.pop(number)[0])
        elif event == LogEvent.JOB_ERROR and number in self.running:
            self.failed[number] = self.running.pop(number)[0]

    def start(self, logger: logging.Logger) -> None:
        """Follow `logger`'s events from now on, in place of its own lines about jobs."""
        streams = [h for h in logger.handlers if isinstance(h, logging.StreamHandler)]
        self._console = [h for h in streams if not isinstance(h, logging.FileHandler)]
        for handler in self._console:
            handler.addFilter(_is_shown)
        logger.addHandler(self)
        threading.Thread(target=self._run, name="minbert-progress", daemon=True).start()

    def stop(self, logger: logging.Logger) -> None:
        """End the lines; Snakemake prints all of its own again."""
        self._stop.set()
        logger.removeHandler(self)
        for handler in self._console:
            handler.removeFilter(_is_shown)

    def line(self) -> str:
        """Return the state of the workflow in one line."""
        trained, stages = _trainings(self.done), _trainings(self.jobs)
        parts = [f"training: {trained} of {stages} stages done"] if stages else []
        if others := len(self.jobs) - stages:
            parts.append(f"other jobs: {len(self.done) - trained} of {others}")
        if seconds := self.seconds_left():
            left = duration(60 * max(1, round(seconds / 60))).removesuffix(" 0 s")
            parts.append(f"about {left} left")
        if self.failed:
            parts.append(f"failed: {len(self.failed)}")
        running = Counter(self._title(work) for work, _ in list(self.running.values()))
        if names := [f"{name} x{n}" if n > 1 else name for name, n in sorted(running.items())]:
            parts.append(f"now: {some(names)}")
        return " | ".join(parts)

    def ran(self) -> str:
        """Return what ran in all, in one line."""
        trained = _trainings(self.done)
        others = counted(len(self.done) - trained, "other job")
        said = f"ran {counted(trained, 'training stage')} and {others} in "
        said += duration(time.monotonic() - self.started)
        stopped = self._stopped()
        if failed := len(self.failed) - stopped:
            said += f"; {failed} failed"
        if stopped:
            said += f"; {stopped} interrupted, to go on from where they were"
        missed = len(self.jobs) - len(self.done) - len(self.failed)
        return said + (f"; {missed} not reached" if missed > 0 else "")

    def _stopped(self) -> int:
        """Return how many of the jobs that failed are trainings told to stop, as by Ctrl-C."""
        newest = newest_attempts(self.plan.root) if self.failed else {}
        found = (newest.get((work.key, str(work.seed))) for work in self.failed.values())
        return sum(attempt.status == "KILLED" for attempt in found if attempt)

    def seconds_left(self) -> float | None:
        """Return how long the jobs that have not ended will take; None if that is not known.

        That is the time so far, times what is expected of them over what is done; so it needs not
        be known how many run side by side, and how fast this machine is.
        """
        now = time.monotonic()
        running = list(self.running.values())
        ended = sum(map(self._seconds, list(self.done)))
        reached = sum(min(now - since, self._seconds(work)) for work, since in running)
        given_up = sum(map(self._seconds, list(self.failed.values())))
        left = sum(map(self._seconds, self.jobs)) - ended - reached - given_up
        return (now - self.started) * left / (ended + reached) if ended else None

    def _seconds(self, work: Work) -> float:
        return self._expected.get(work, OTHERS)

    def _title(self, work: Work) -> str:
        if work.rule != "train":
            return work.rule
        return title(self.plan, self.plan.nodes["train", work.key], work.seed)

    def _run(self) -> None:
        """Print a line when jobs have ended, or else now and then."""
        gap, beat = (5.0, 30.0) if sys.stderr.isatty() else (30.0, 300.0)
        reported, ended = time.monotonic() - gap, -1
        while not self._stop.wait(1.0):
            now, count = time.monotonic(), len(self.done) + len(self.failed)
            if now - reported >= (gap if count != ended else beat):
                reported, ended = now, count
                with suppress(OSError, KeyError):  # No error in it stops the workflow.
                    clock = time.strftime("%H:%M:%S")
                    print(f"{clock}  {self.line()}", file=sys.stderr, flush=True)


class Idle(logging.Handler):
    """Prints `text` after Snakemake's word that there is nothing to be done, which ends it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def emit(self, record: logging.LogRecord) -> None:
        """Print, if this is that record."""
        if record.getMessage() == NOTHING_TO_BE_DONE_MSG:
            print(self.text, file=sys.stderr, flush=True)


def _trainings(works: Sequence[Work]) -> int:
    return sum(work.rule == "train" for work in works)


def _is_shown(record: logging.LogRecord) -> bool:
    """Whether a record belongs on the console beside these lines: errors always do."""
    said: Any = getattr(record, "event", None)
    return said not in REPLACED and record.getMessage() != "Select jobs to execute..."
