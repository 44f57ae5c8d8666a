"""While the grid runs: a line with the jobs that are done, that run now, and the time left.

It counts the events that Snakemake logs when a job starts, ends or fails, on this machine or on a
cluster. A thread of Snakemake's own process prints the lines, so it ends with Snakemake.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake_interface_logger_plugins.common import LogEvent

from minbert.base.progress import counted, duration, some
from minbert.plan.cost import Costs
from minbert.plan.describe import title
from minbert.plan.plan import Plan
from minbert.track.journal import newest_attempts

OTHERS = 4.0
"""Seconds that a job is expected to take besides training."""
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
    """The name of a job, the seconds that it is expected to take, a training's key and seed."""

    name: str
    seconds: float = OTHERS
    run: tuple[str, str] = ("", "")


class Progress(logging.Handler):
    """The lines of one workflow of `plan`; `jobs` are the rule and wildcards of each to run."""

    def __init__(self, plan: Plan, jobs: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        super().__init__()
        self.plan = plan
        self.running: dict[int, Work] = {}
        """By Snakemake's number, as are those that failed, until they are tried again."""
        self.failed: dict[int, Work] = {}
        self.done: list[Work] = []
        self.started = time.monotonic()
        self._costs = Costs(plan)
        self.jobs = [self.work(*job) for job in jobs]
        self._stop = threading.Event()
        self._console: list[logging.Handler] = []

    def work(self, rule: str, wildcards: Mapping[str, str]) -> Work:
        """Return what a job of a rule is, perhaps of another workflow's rule."""
        node = self.plan.nodes.get((rule, wildcards.get("key", "")))
        if rule != "train" or node is None:
            return Work(rule)
        seconds, seed = OTHERS + self._costs.of(node).seconds, wildcards["seed"]
        return Work(f"{title(self.plan, node)} . s{seed}", seconds, (node.key, seed))

    def emit(self, record: logging.LogRecord) -> None:
        """Count one record, if it is an event of a job."""
        event, said = getattr(record, "event", None), record.__dict__
        number = said.get("jobid", said.get("job_id", 0))
        if event == LogEvent.JOB_INFO and said["rule_name"] != "all":
            self.failed.pop(number, None)
            self.running[number] = self.work(said["rule_name"], said.get("wildcards") or {})
        elif event == LogEvent.JOB_FINISHED and number in self.running:
            self.done.append(self.running.pop(number))
        elif event == LogEvent.JOB_ERROR and number in self.running:
            self.failed[number] = self.running.pop(number)

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
        """Return the state of the workflow in one line.

        The time left is the time so far, times what is expected of the jobs to come over what was
        of those that are done, however many run side by side and how fast this machine is.
        """
        parts = [f"{len(self.done)} of {counted(len(self.jobs), 'job')} done"]
        spent, every = (sum(work.seconds for work in works) for works in (self.done, self.jobs))
        if spent and every > spent:
            left = (time.monotonic() - self.started) * (every - spent) / spent
            parts.append(f"about {duration(left)} left")
        if self.failed:
            parts.append(f"failed: {len(self.failed)}")
        if names := sorted(work.name for work in list(self.running.values())):
            parts.append(f"now: {some(names)}")
        return " | ".join(parts)

    def ran(self) -> str:
        """Return what ran in all, in one line."""
        said = (
            f"ran {counted(len(self.done), 'job')} in {duration(time.monotonic() - self.started)}"
        )
        newest = newest_attempts(self.plan.root) if self.failed else {}
        ended = (newest.get(work.run) for work in self.failed.values())
        stopped = sum(attempt.end().get("status") == "KILLED" for attempt in ended if attempt)
        counts = {
            "failed": len(self.failed) - stopped,
            "interrupted, to go on from where they were": stopped,
            "not reached": len(self.jobs) - len(self.done) - len(self.failed),
        }
        parts = (f"{number} {what}" for what, number in counts.items() if number > 0)
        return "; ".join([said, *parts])

    def _run(self) -> None:
        """Print a line when jobs have ended, or else now and then."""
        gap, beat = (5.0, 30.0) if sys.stderr.isatty() else (30.0, 300.0)
        reported, ended = time.monotonic() - gap, -1
        while not self._stop.wait(1.0):
            now, count = time.monotonic(), len(self.done) + len(self.failed)
            if now - reported >= (gap if count != ended else beat):
                reported, ended = now, count
                with suppress(OSError):  # A closed terminal stops no workflow.
                    print(
                        f"{time.strftime('%H:%M:%S')}  {self.line()}", file=sys.stderr, flush=True
                    )


class Idle(logging.Handler):
    """Prints `text` after Snakemake's word that there is nothing to be done, which ends it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def emit(self, record: logging.LogRecord) -> None:
        """Print, if this is that record."""
        if record.getMessage() == NOTHING_TO_BE_DONE_MSG:
            print(self.text, file=sys.stderr, flush=True)


def _is_shown(record: logging.LogRecord) -> bool:
    """Whether a record belongs on the console beside these lines: errors always do."""
    said = getattr(record, "event", None)
    return said not in REPLACED and record.getMessage() != "Select jobs to execute..."
