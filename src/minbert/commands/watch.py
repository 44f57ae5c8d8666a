"""While the grid runs: how many stages are done, how long the rest will take, what runs now.

Counts the events that Snakemake logs when a job starts, ends or fails, on this machine or on a
cluster. A thread of Snakemake's own process prints the lines, so it ends with Snakemake.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake_interface_logger_plugins.common import LogEvent

from minbert.base.errors import UserError
from minbert.base.process import lines_of
from minbert.base.progress import counted, duration
from minbert.commands.remaining import Work, seconds_left, trainings
from minbert.plan.cost import Costs
from minbert.plan.describe import title
from minbert.plan.plan import Plan
from minbert.track.journal import END, newest_attempts

_LOOK_SECONDS = 1.0
_COST_SECONDS = 60.0
_GPU_SECONDS = 5.0
_SHOWN = 3
_SHORT = 60
_STEADY_JOBS = 3
_SELECTING = "Select jobs to execute..."
_NOISE = {
    LogEvent.JOB_INFO,
    LogEvent.GROUP_INFO,
    LogEvent.SHELLCMD,
    LogEvent.JOB_STARTED,
    LogEvent.JOB_FINISHED,
    LogEvent.PROGRESS,
}
"""Events that these lines replace on the console; Snakemake's log file has them all."""


class Tally(logging.Handler):
    """All jobs of a workflow, those that run now, and those that ended. Times are monotonic."""

    def __init__(self, jobs: Sequence[Work]) -> None:
        super().__init__()
        self.jobs = jobs
        self.running: dict[int, tuple[Work, float]] = {}
        self.done: list[Work] = []
        self.took: dict[Work, float] = {}
        """Seconds of each of those, from its start or its submission."""
        self.failed: dict[int, Work] = {}
        """Those that failed, by Snakemake's number, until they are tried again."""

    def emit(self, record: logging.LogRecord) -> None:
        """Count one record, if it is an event of a job."""
        event = getattr(record, "event", None)
        said: dict[str, Any] = record.__dict__
        if event == LogEvent.JOB_INFO and said["rule_name"] != "all":
            self.failed.pop(said["jobid"], None)
            work = Work.of(said["rule_name"], said.get("wildcards"))
            self.running[said["jobid"]] = work, time.monotonic()
        elif event == LogEvent.JOB_FINISHED and said["job_id"] in self.running:
            work, since = self.running.pop(said["job_id"])
            self.done.append(work)
            self.took[work] = time.monotonic() - since
        elif event == LogEvent.JOB_ERROR and said["jobid"] in self.running:
            self.failed[said["jobid"]] = self.running.pop(said["jobid"])[0]


class Watch:
    """The lines of one workflow; `slots` trainings run side by side, or `others` other jobs.

    `gpu`: whether trainings get a GPU each on a cluster; None: all runs on this machine. On a
    cluster jobs queue, so that the time left is not known until some have ended.
    """

    def __init__(
        self, plan: Plan, jobs: Sequence[Work], slots: int, others: int, gpu: bool | None = None
    ) -> None:
        self.plan = plan
        self.gpu = gpu
        self.side_by_side = max(1, slots), max(1, others)
        self.tally = Tally(jobs)
        self.started = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="minbert-watch", daemon=True)
        self._logger: logging.Logger | None = None
        self._costs: dict[Work, float] = {}
        self._guessed = False
        self._costed = (-1, 0.0)

    def start(self, logger: logging.Logger) -> None:
        """Follow `logger`'s events from now on, in place of its own lines about jobs."""
        self._logger = logger
        logger.addHandler(self.tally)
        for handler in _console(logger):
            handler.addFilter(_is_shown)
        self._thread.start()

    def stop(self) -> None:
        """End the lines; Snakemake prints all of its own again."""
        self._stop.set()
        if self._logger is not None:
            self._logger.removeHandler(self.tally)
            for handler in _console(self._logger):
                handler.removeFilter(_is_shown)
        self._thread.join(_LOOK_SECONDS * 5)

    def line(self) -> str:
        """Return the state of the workflow in one line."""
        tally = self.tally
        trained, stages = len(trainings(tally.done)), len(trainings(tally.jobs))
        parts = []
        if stages:
            parts.append(f"training: {trained} of {stages} stages done")
        if others := len(tally.jobs) - stages:
            parts.append(f"other jobs: {len(tally.done) - trained} of {others}")
        if len(tally.done) < len(tally.jobs):
            parts.append(self._left())
        if tally.failed:
            parts.append(f"failed: {len(tally.failed)}")
        if running := self._running():
            parts.append(f"now: {running}")
        if stages and (gpus := gpu_use()):
            parts.append(gpus)
        return " | ".join(parts)

    def ran(self) -> str:
        """Return what ran in all, in one line."""
        tally = self.tally
        trained = len(trainings(tally.done))
        others = counted(len(tally.done) - trained, "other job")
        said = f"ran {counted(trained, 'training stage')} and {others} in "
        said += duration(time.monotonic() - self.started)
        stopped = self._stopped()
        if failed := len(tally.failed) - stopped:
            said += f"; {failed} failed"
        if stopped:
            said += f"; {stopped} interrupted, to go on from where they were"
        missed = len(tally.jobs) - len(tally.done) - len(tally.failed)
        return said + (f"; {missed} not reached" if missed > 0 else "")

    def _stopped(self) -> int:
        """Return how many of the trainings that failed were told to stop, as by Ctrl-C."""
        newest = newest_attempts(self.plan.root)
        failed = (newest.get((work.key, str(work.seed))) for work in self.tally.failed.values())
        ends = (attempt.recall(END) for attempt in failed if attempt)
        return sum(end.get("status") == "KILLED" for end in ends)

    def seconds_left(self) -> float | None:
        """Return how long the jobs that have not ended will take; None if that is not known.

        A training is expected to take as long as `minbert plan` says.
        """
        tally, now = self.tally, time.monotonic()
        costs = self._known_costs()
        ended = {*tally.done, *list(tally.failed.values())}  # another thread adds to them
        waiting = [work for work in tally.jobs if work not in ended]
        steady = len(trainings(tally.done)) >= min(_STEADY_JOBS, len(trainings(tally.jobs)))
        if self.gpu is not None and not steady:
            return None
        if not all(work in costs for work in trainings(waiting)):
            return None
        running = {work: now - since for work, since in list(tally.running.values())}
        return seconds_left(waiting, dict(tally.took), running, costs, self.side_by_side)

    def _left(self) -> str:
        seconds = self.seconds_left()
        if seconds is None:
            return "time left not known yet"
        if seconds < _SHORT:
            left = "under a minute left"
        else:
            left = f"about {duration(60 * round(seconds / 60)).removesuffix(' 0 s')} left"
        return f"{left}{' (a guess)' if self._guessed else ''}"

    def _known_costs(self) -> dict[Work, float]:
        """Return the seconds of each stage, read again at most once a minute as more are done."""
        done, at = self._costed
        now = time.monotonic()
        if done < 0 or (len(self.tally.done) != done and now - at > _COST_SECONDS):
            costs = Costs(self.plan, self.gpu)
            stages = trainings(self.tally.jobs)
            found = {w: costs.of(self.plan.nodes["train", w.key]) for w in stages}
            self._costs = {work: cost.seconds for work, cost in found.items()}
            self._guessed = not all(cost.measured for cost in found.values())
            self._costed = len(self.tally.done), now
        return self._costs

    def _running(self) -> str:
        titles = Counter(self._title(work) for work, _ in list(self.tally.running.values()))
        named = [f"{name} x{n}" if n > 1 else name for name, n in sorted(titles.items())]
        more = len(named) - _SHOWN
        return ", ".join(named[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

    def _title(self, work: Work) -> str:
        if work.rule != "train":
            return work.rule
        return title(self.plan, self.plan.nodes["train", work.key], work.seed)

    def _run(self) -> None:
        gap, beat = (5.0, 30.0) if sys.stderr.isatty() else (30.0, 300.0)
        reported, ended = time.monotonic() - gap, -1
        while not self._stop.wait(_LOOK_SECONDS):
            now = time.monotonic()
            count = len(self.tally.done) + len(self.tally.failed)
            if now - reported >= (gap if count != ended else beat):
                reported, ended = now, count
                with suppress(OSError, UserError, KeyError):  # No error in it stops the workflow.
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


def _is_shown(record: logging.LogRecord) -> bool:
    """Whether a record belongs on the console beside these lines: errors always do."""
    return getattr(record, "event", None) not in _NOISE and record.getMessage() != _SELECTING


def _console(logger: logging.Logger) -> list[logging.Handler]:
    """Return the handlers of Snakemake's log that write to the console, not to a file."""
    streams = (h for h in logger.handlers if isinstance(h, logging.StreamHandler))
    return [handler for handler in streams if not isinstance(handler, logging.FileHandler)]


def gpu_use() -> str:
    """Return each GPU's use and memory in words; '' if there is none or it does not answer."""
    query = "--query-gpu=index,utilization.gpu,memory.used,memory.total"
    command = ("nvidia-smi", query, "--format=csv,noheader,nounits")
    found = []
    for line in lines_of(*command, timeout=_GPU_SECONDS):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 4:
            continue
        index, busy, used, total = fields
        words = [f"GPU {index}"]
        if busy.isdigit():
            words.append(f"{busy} %")
        if used.isdigit() and total.isdigit():
            words.append(f"{int(used) / 1024:.1f} of {int(total) / 1024:.0f} GiB")
        found.append(" ".join(words))
    return ", ".join(found)
