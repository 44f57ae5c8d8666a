"""The log by which a job reports a run, and how it is read. Imports the standard library only.

Each attempt at a run has the log `ROOT/tracking/ATTEMPT.jsonl`, which its process holds locked, so
that a SIGKILL shows. Each line is a JSON object. It may have `params` and `tags` (names to values)
and `points`, measured values [metric, value, step, unix seconds]; besides, the first line has what
the run is (`Journal.start`), and the last one how it ended (`Journal.end`). A log without that
whose lock is free is of a job that was killed.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from minbert.base.locks import is_held, take
from minbert.spec.protocol import Measured

TRACKING = "tracking"
FOLLOWER = Path(TRACKING) / ".follower"
"""The lock of the one process that writes into the store."""
BEST, TEST, COST = "best", "test", "cost"
"""What the names of a run's final metrics begin with: its scores on dev and on test, its cost."""
_TAIL = 1 << 16  # bytes, more than how a job ended takes
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-(.+)-s(\d+)-\d+")
"""An attempt's name: when it began, key, seed, and its process."""


class Journal:
    """Adds to the log at `path`. Begin one with `Journal.start`, close it with `end`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab")
        take(self._file, 5.0)  # Whoever asks whether it is held holds it for a moment.

    @classmethod
    def start(cls, root: Path, run: Mapping[str, Any]) -> Journal:
        """Begin the log of an attempt at a run under `root`, and take its lock.

        `run` has `experiment`, `key`, `seed` and `name`, and may have `params`, `tags`, and when it
        `started` (unix seconds).
        """
        now = datetime.now(UTC)
        name = f"{now:%Y%m%dT%H%M%S.%fZ}-{run['key']}-s{run['seed']}-{os.getpid()}.jsonl"
        path = root / TRACKING / name
        path.parent.mkdir(parents=True, exist_ok=True)
        journal = cls(path)
        journal._write({"started": now.timestamp(), **run})
        return journal

    def log(self, measured: Measured) -> None:
        """Add one value under MLflow's name for it.

        Raises `ValueError` after `end`, and `OSError` naming the file on a full disk.
        """
        name = f"{measured.split}/{measured.task}/{measured.metric}"
        self._write({"points": [[name, measured.value, measured.step, measured.time]]})

    def end(
        self,
        status: str,
        error: str | None = None,
        ended: float | None = None,
        step: int = 0,
        metrics: Mapping[str, float] = {},
        **more: Any,
    ) -> None:
        """Report how the run ended, `FINISHED`, `FAILED` or `KILLED`, and free its lock.

        `metrics` are its final ones, measured after `step` steps; `more` may have `params` and
        `tags` that were not known at the start. `ended` is in unix seconds (default: now). Raises
        `OSError` on a full disk: the job then looks killed.
        """
        when = ended or time.time()
        points = [[name, value, step, when] for name, value in metrics.items()]
        with _naming(self.path), self._file:
            self._file.write(b"\n")  # ends the part of a line that a killed process left
            self._write({"status": status, "error": error, "ended": when, "points": points, **more})

    def _write(self, line: Mapping[str, Any]) -> None:
        with _naming(self.path):
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()  # The follower sees it at once.


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the name of the file to an `OSError` of the block, which has none."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


@dataclass
class Attempt:
    """Reads the log of one attempt; of those that share a key and seed, the newest counts."""

    path: Path
    group: tuple[str, str] = ("", "")
    """Key and seed."""

    @property
    def name(self) -> str:
        """The attempt's name, which sorts by start and is a tag of the run in MLflow."""
        return self.path.stem

    def alive(self) -> bool:
        """Whether the job still holds its lock."""
        return is_held(self.path)

    def end(self) -> dict[str, Any]:
        """What the job said last, with how it ended; nothing if it has not."""
        said, _ = self.read(max(0, self.path.stat().st_size - _TAIL))
        return said if "status" in said else {}

    def failure(self) -> str | None:
        """Why the job failed: its error, or that it was killed. None if it has not."""
        alive, end = self.alive(), self.end()  # In this order: a job frees its lock last.
        if not end:
            return None if alive else "killed"
        return str(end["error"]) if end["status"] == "FAILED" else None

    def read(self, place: int = 0) -> tuple[dict[str, Any], int]:
        """Return what the lines from byte `place` on say, joined, and the place after them.

        An incomplete last line is left for the next call; a complete line that cannot be read, as a
        power failure may leave one, is skipped.
        """
        said: dict[str, Any] = {"params": {}, "tags": {}, "points": []}
        with self.path.open("rb") as file:
            file.seek(place)
            while (text := file.readline()).endswith(b"\n"):
                place += len(text)
                with suppress(ValueError):
                    line = json.loads(text)
                    said["points"] += line.pop("points", [])
                    for name in ("params", "tags"):
                        said[name] |= line.pop(name, {})
                    said |= line
        return said, place


def attempts(root: Path) -> list[Attempt]:
    """Return the attempts under `root`, oldest first; other files there are a user's copies."""
    return [
        Attempt(path, (name[1], name[2]))
        for path in sorted((root / TRACKING).glob("*.jsonl"))
        if (name := _NAME.fullmatch(path.stem))
    ]


def newest_attempts(root: Path) -> dict[tuple[str, str], Attempt]:
    """Return the newest attempt by key and seed."""
    return {attempt.group: attempt for attempt in attempts(root)}
