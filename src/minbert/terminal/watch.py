"""While the grid runs: how many stages are done, how long the rest will take, what runs now.

A thread of Snakemake's own process prints plain lines to standard error and writes nothing else,
so it ends with Snakemake, however that ends.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby

from minbert.common.words import duration
from minbert.grid.estimate import Costs
from minbert.grid.plan import Plan
from minbert.terminal.events import Tally, Work, console, trainings, without_noise
from minbert.terminal.gpu import gpu_use

_LOOK_SECONDS = 1.0
_COST_SECONDS = 60.0
_SHOWN = 3
_SHORT = 60
_STEADY_JOBS = 3


class Watch:
    """The lines of one workflow. `slots` is how many trainings go side by side.

    Jobs that are `queued` may wait on a cluster: nobody knows for how long until some have ended.
    """

    def __init__(
        self, plan: Plan, jobs: Sequence[Work], slots: int, *, queued: bool = False
    ) -> None:
        self.plan = plan
        self.queued = queued
        self.slots = max(1, slots)
        self.tally = Tally(jobs)
        self.started = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="minbert-watch", daemon=True)
        self._logger: logging.Logger | None = None
        self._costs: dict[Work, float] = {}
        self._guessed = False
        self._costed = (-1, 0.0)
        self._busy = 0.0

    def start(self, logger: logging.Logger) -> None:
        """Follow `logger`'s events from now on, in place of its own lines about jobs."""
        self._logger = logger
        logger.addHandler(self.tally)
        for handler in console(logger):
            handler.addFilter(without_noise)
        self._thread.start()

    def stop(self) -> None:
        """End the lines; Snakemake says all of its own again."""
        self._stop.set()
        if self._logger is not None:
            self._logger.removeHandler(self.tally)
            for handler in console(self._logger):
                handler.removeFilter(without_noise)
        self._thread.join(_LOOK_SECONDS * 5)

    def line(self) -> str:
        """Return how it stands, in one line."""
        tally = self.tally
        trained, stages = len(trainings(tally.done)), len(trainings(tally.jobs))
        others = len(tally.jobs) - stages
        parts = []
        if stages:
            left = f", {self._left()}" if trained < stages else ""
            parts.append(f"training: {trained} of {stages} stages done{left}")
        if others:
            parts.append(f"other jobs: {len(tally.done) - trained} of {others}")
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
        seconds = time.monotonic() - self.started
        said = f"ran {trained} training stages and {len(tally.done) - trained} other jobs in "
        said += duration(seconds)
        missed = len(tally.jobs) - len(tally.done) - len(tally.failed)
        if tally.failed:
            said += f"; {len(tally.failed)} failed"
        if missed > 0:
            said += f"; {missed} were not reached"
        return said

    def seconds_left(self) -> float | None:
        """Return how long the stages that are not done will take; None while nobody knows.

        A stage is taken to last as long as `minbert plan` says. What jobs need beside that (to
        start, to be scheduled) comes in by the pace of this workflow's finished stages.
        """
        tally, now = self.tally, time.monotonic()
        costs = self._known_costs()
        ended = set(tally.done) | set(tally.failed.values())
        waiting = [work for work in trainings(tally.jobs) if work not in ended]
        running = {work: now - since for work, since in list(tally.running.values())}
        if not all(work in costs for work in waiting):
            return None
        done = trainings(tally.done)
        if self.queued and len(done) < _STEADY_JOBS:
            return None
        pace = 1.0
        if len(done) >= _STEADY_JOBS and (spent := sum(costs.get(work, 0.0) for work in done)):
            under_way = sum(min(running.get(w, 0.0), costs[w]) for w in waiting)
            pace = max(1.0, self._busy * self.slots / (spent + under_way))
        left = [max(0.0, costs[w] * pace - running.get(w, 0.0)) for w in waiting]
        return max(sum(left) / self.slots, max(left, default=0.0))

    def _left(self) -> str:
        seconds = self.seconds_left()
        if seconds is None:
            return "time left not known yet"
        left = f"about {duration(seconds)} left" if seconds >= _SHORT else "under a minute left"
        return f"{left}{' (a guess)' if self._guessed else ''}"

    def _known_costs(self) -> dict[Work, float]:
        """Return the seconds of each stage, read anew at most once a minute, as more are done."""
        done, at = self._costed
        now = time.monotonic()
        stages = trainings(self.tally.jobs)
        if done < 0 or (len(self.tally.done) != done and now - at > _COST_SECONDS):
            costs = Costs(self.plan)
            found = {w: costs.of(self.plan.nodes["train", w.key]) for w in stages}
            self._costs = {work: cost.seconds for work, cost in found.items()}
            self._guessed = not all(cost.measured for cost in found.values())
            self._costed = len(self.tally.done), now
        return self._costs

    def _running(self) -> str:
        titles = sorted(self._title(work) for work, _ in list(self.tally.running.values()))
        named = [
            f"{title} x{n}" if (n := len(list(g))) > 1 else title for title, g in groupby(titles)
        ]
        more = len(named) - _SHOWN
        return ", ".join(named[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

    def _title(self, work: Work) -> str:
        if work.rule != "train":
            return work.rule
        return f"{self.plan.title(self.plan.nodes['train', work.key])} . s{work.seed}"

    def _run(self) -> None:
        gap, beat = (5.0, 30.0) if sys.stderr.isatty() else (30.0, 300.0)
        told, ended = time.monotonic() - gap, -1
        before = time.monotonic()
        while not self._stop.wait(_LOOK_SECONDS):
            now = time.monotonic()
            if any(work.rule == "train" for work, _ in list(self.tally.running.values())):
                self._busy += now - before
            before = now
            count = len(self.tally.done) + len(self.tally.failed)
            if now - told >= (gap if count != ended else beat):
                told, ended = now, count
                _tell(self.line)


def _tell(line: Callable[[], str]) -> None:
    """Print a line with the time of day; whatever goes wrong with it stops no workflow."""
    with suppress(OSError, ValueError, KeyError):
        print(f"{time.strftime('%H:%M:%S')}  {line()}", file=sys.stderr, flush=True)
