"""A workflow from its start to its end, in Snakemake's own process.

While it runs, nothing deletes results, one follower stores what jobs measure in MLflow, and lines
say how far it is: a thread prints them, and counts the events that Snakemake logs when a job
starts, ends or fails, here or on a cluster. After an error, whatever finished is published.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake.common import NOTHING_TO_BE_DONE_MSG

from minbert.base.locks import exclusive_lock, results_lock
from minbert.base.progress import counted, duration, some
from minbert.commands.rules import Rules
from minbert.commands.summary import places
from minbert.devices.gpus import in_words
from minbert.devices.slurm import cancel_orphans
from minbert.plan.describe import title, write
from minbert.track.journal import newest_attempts
from minbert.track.store import check_store

_LAST_PASS = 60.0
"""Seconds that the follower has to store what jobs measured last."""
OTHERS = 4.0
"""Seconds that a job is expected to take besides training."""
_STATES = {"job_info": "running", "job_finished": "done", "job_error": "failed"}
_REPLACED = ("group_info", "shellcmd", "job_info", "job_started", "job_finished", "progress")
"""Events whose lines on the console these lines replace; Snakemake's log file has them all."""


@dataclass
class Work:
    """The name of a job, the seconds that it is expected to take, a training's key and seed."""

    name: str
    seconds: float = OTHERS
    run: tuple[str, str] = ("", "")
    state: str = ""
    """One of `_STATES`, or none before the job starts."""


class Session(logging.Handler):
    """One run of the workflow whose jobs are those of `rules`.

    If there is nothing to be done, Snakemake calls neither `start` nor `end`, and its `logger` has
    the word; then the places of the results are told.
    """

    def __init__(self, rules: Rules, logger: logging.Logger) -> None:
        super().__init__()
        self.rules, self.plan, self._logger = rules, rules.plan, logger
        self.jobs: dict[int, Work] = {}  # by Snakemake's number
        self._held = ExitStack()  # until this process ends
        self._ended = threading.Event()
        self._follower: subprocess.Popen[bytes] | None = None
        logger.addHandler(self)

    def start(self, workflow: Any) -> None:
        """Lock the results, write what jobs read, and follow Snakemake's `workflow` from now on.

        Raises `UserError` if another workflow runs on these results.
        """
        plan, root, tracking = self.plan, self.plan.root, self.plan.config.tracking.enabled
        plan.check_names()
        self._held.enter_context(results_lock(root))
        self._held.enter_context(exclusive_lock(root / "store" / "plans", f"a workflow on {root}"))
        if tracking:
            check_store(root)
        write(plan)
        _tell_devices(plan.config.device, self.rules.costs.gpu)
        (logs := root / "logs").mkdir(parents=True, exist_ok=True)
        words = [Path(sys.argv[0]).name, *sys.argv[1:]]  # of Snakemake, for the report
        (logs / "command.txt").write_text(shlex.join(words) + "\n", encoding="utf-8")
        if tracking:
            with (logs / "follower.log").open("a") as sink:
                # In a separate session: Ctrl-C must not end it before its last pass.
                self._follower = subprocess.Popen(
                    self._minbert("follow", "--until", str(os.getpid())),
                    stdout=sink,
                    stderr=sink,
                    start_new_session=True,
                )
        jobs = (job for job in workflow.dag.needrun_jobs() if job.rule.name != "all")
        self.expect({job.jobid: (job.rule.name, job.wildcards_dict) for job in jobs})
        for of in self._logger.handlers:
            if isinstance(of, logging.StreamHandler) and not isinstance(of, logging.FileHandler):
                of.addFilter(_is_shown)
        threading.Thread(target=self._tell, daemon=True).start()

    def expect(self, jobs: Mapping[int, tuple[str, Mapping[str, str]]]) -> None:
        """Begin to count these jobs, each a rule, perhaps of another workflow, and wildcards."""
        self.started = time.monotonic()
        for number, (rule, wildcards) in jobs.items():
            self.jobs[number] = Work(rule)
            if node := self.plan.nodes.get(("train", wildcards.get("key", ""))):
                seconds, seed = OTHERS + self.rules.costs.seconds(node), wildcards["seed"]
                name = f"{title(self.plan, node)} . s{seed}"
                self.jobs[number] = Work(name, seconds, (node.key, seed))

    def emit(self, record: logging.LogRecord) -> None:
        """Count what Snakemake says, if it is an event of a job."""
        said = record.__dict__
        job = self.jobs.get(said.get("jobid", said.get("job_id", -1)))
        if job and (state := _STATES.get(said.get("event", ""))):
            job.state = state
        elif record.getMessage() == NOTHING_TO_BE_DONE_MSG:
            plan = self.plan
            print(places(plan.root, plan.names, plan.config.tracking.enabled), file=sys.stderr)

    def _in(self, state: str) -> list[Work]:
        return [job for job in self.jobs.values() if job.state == state]

    def line(self) -> str:
        """Return the state of the workflow in one line.

        The time left is the time so far, times what is expected of the jobs to come over what was
        of those that are done, however many run side by side and how fast this machine is.
        """
        done, failed = self._in("done"), self._in("failed")
        parts = [f"{len(done)} of {counted(len(self.jobs), 'job')} done"]
        spent, every = (sum(of.seconds for of in works) for works in (done, self.jobs.values()))
        if spent and every > spent:
            left = (time.monotonic() - self.started) * (every - spent) / spent
            parts.append(f"about {duration(left)} left")
        if failed:
            parts.append(f"failed: {len(failed)}")
        if names := sorted(of.name for of in self._in("running")):
            parts.append(f"now: {some(names)}")
        return " | ".join(parts)

    def ran(self) -> str:
        """Return what ran in all, in one line."""
        newest, done, failed = newest_attempts(self.plan.root), self._in("done"), self._in("failed")
        ends = (newest[job.run].end() for job in failed if job.run in newest)
        stopped = sum(end.get("status") == "KILLED" for end in ends)
        counts = {
            "failed": len(failed) - stopped,
            "interrupted, to be resumed": stopped,
            "not reached": len(self.jobs) - len(done) - len(failed),
        }
        parts = [f"ran {counted(len(done), 'job')} in {duration(time.monotonic() - self.started)}"]
        return "; ".join(parts + [f"{number} {what}" for what, number in counts.items() if number])

    def end(self, *, partial: bool = False) -> None:
        """Complete MLflow, and summarise what ran and came of it; `partial`: publish what there is.

        Tables then mark rows as failed or not run.
        """
        if partial:
            subprocess.run(self._minbert("publish-partial"), check=False)
        if self._follower is not None:
            self._follower.terminate()  # asks for its last pass
            with suppress(subprocess.TimeoutExpired):
                self._follower.wait(_LAST_PASS)
            if self._follower.returncode != 0:  # It was killed, or left something undone.
                subprocess.run(self._minbert("follow", "--once"), check=False)
        self._ended.set()
        print(f"\n{self.ran()}", file=sys.stderr, flush=True)
        subprocess.run(self._minbert("summary"), check=False)

    def _tell(self) -> None:
        """Print a line when jobs have ended, or else now and then."""
        told, before = 0.0, -1
        while not self._ended.wait(1.0):
            now, count = time.monotonic(), len(self._in("done") + self._in("failed"))
            if now - told >= (10.0 if count != before else 300.0):
                told, before = now, count
                line = f"{time.strftime('%H:%M:%S')}  {self.line()}"
                with suppress(OSError):  # A closed terminal stops no workflow.
                    print(line, file=sys.stderr, flush=True)

    def _minbert(self, command: str, *more: str) -> list[str]:
        options = shlex.split(self.rules.at)
        return [sys.executable, "-m", "minbert", command, *options, *more]


def _is_shown(record: logging.LogRecord) -> bool:
    """Whether a record belongs on the console beside these lines: errors always do."""
    said = record.getMessage()
    return getattr(record, "event", "") not in _REPLACED and said != "Select jobs to execute..."


def _tell_devices(wish: str, gpu: bool | None) -> None:
    """Report once where training will run; on Slurm, cancel jobs of a killed Snakemake."""
    where = f"training jobs ask for {'a' if gpu else 'no'} GPU"
    print(in_words(wish) if gpu is None else where, file=sys.stderr)
    if gpu is not None and (left := cancel_orphans(Path.cwd())):
        print(f"cancelled jobs that an earlier Snakemake left: {' '.join(left)}", file=sys.stderr)
