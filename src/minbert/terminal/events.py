"""What Snakemake's own log says of its jobs, counted; and the console without a block a job.

Snakemake logs an event when a job starts, ends and fails; logger plugins live on them. So what
is counted is what happened, whatever the target, on this machine or on a cluster.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent

NOISE = {
    LogEvent.JOB_INFO,
    LogEvent.GROUP_INFO,
    LogEvent.SHELLCMD,
    LogEvent.JOB_STARTED,
    LogEvent.JOB_FINISHED,
    LogEvent.PROGRESS,
}
"""Events that the console leaves to the watch; Snakemake's log file has them all."""

_SELECTING = "Select jobs to execute..."


@dataclass(frozen=True)
class Work:
    """One job: its rule, and for those that have them the key and seed of what it makes."""

    rule: str
    key: str = ""
    seed: int | None = None

    @classmethod
    def of(cls, rule: str, wildcards: dict[str, str] | None) -> Work:
        """Return the job of `rule` with these wildcards."""
        words = wildcards or {}
        seed = words.get("seed")
        return cls(rule, words.get("key", ""), None if seed is None else int(seed))


class Tally(logging.Handler):
    """All jobs of a workflow, those that run now, and those that ended. Times are monotonic."""

    def __init__(self, jobs: Sequence[Work]) -> None:
        super().__init__()
        self.jobs = jobs
        self.running: dict[int, tuple[Work, float]] = {}
        self.done: list[Work] = []
        self.failed: dict[int, Work] = {}
        """Those that failed, by Snakemake's number, until they are tried again."""

    def emit(self, record: logging.LogRecord) -> None:
        """Count one record; those that are no event of a job change nothing."""
        event = getattr(record, "event", None)
        said: dict[str, Any] = record.__dict__
        if event == LogEvent.JOB_INFO and said["rule_name"] != "all":
            self.failed.pop(said["jobid"], None)
            work = Work.of(said["rule_name"], said.get("wildcards"))
            self.running[said["jobid"]] = work, time.monotonic()
        elif event == LogEvent.JOB_FINISHED and said["job_id"] in self.running:
            self.done.append(self.running.pop(said["job_id"])[0])
        elif event == LogEvent.JOB_ERROR and said["jobid"] in self.running:
            self.failed[said["jobid"]] = self.running.pop(said["jobid"])[0]


def trainings(works: Iterable[Work]) -> list[Work]:
    """Return those of `works` that train."""
    return [work for work in works if work.rule == "train"]


def without_noise(record: logging.LogRecord) -> bool:
    """Whether a record belongs on the console beside the watch's lines: errors always do."""
    return getattr(record, "event", None) not in NOISE and record.getMessage() != _SELECTING


def console(logger: logging.Logger) -> list[logging.Handler]:
    """Return the handlers of Snakemake's log that write on the console, not into a file."""
    return [
        handler
        for handler in logger.handlers
        if isinstance(handler, logging.StreamHandler)
        and not isinstance(handler, logging.FileHandler)
    ]
