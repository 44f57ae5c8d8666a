"""The files by which a job reports a run, and how they are read. Imports the standard library only.

A job's folder, an attempt at a run, is `ROOT/tracking/ATTEMPT/`:

- `run.json`: what the run is (see `Journal.start`);
- `lock`: held while the process lives, so that a SIGKILL shows;
- `history.jsonl`: one JSON object per line for each measured value;
- `end.json`: how the run ended. A folder without it whose lock is free was killed.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from minbert.base.errors import UserError, naming
from minbert.base.files import read_json, write_json
from minbert.base.locks import is_held, take
from minbert.spec.protocol import Measured

TRACKING = "tracking"
FOLLOWER = Path(TRACKING) / ".follower"
"""The lock of the one process that writes into the store."""
END = "end.json"
BEST, TEST, COST = "best", "test", "cost"
"""What the names of a run's final metrics begin with: its scores on dev and on test, its cost."""
_FLUSH_SECONDS = 1.0
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-(.+)-s(\d+)-\d+")
"""An attempt's folder: when it began, key, seed, and its process."""


class Journal:
    """Writes one attempt at one run. Make it with `Journal.start`, close it with `end`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock
        self._path = folder / "history.jsonl"
        self._history = self._path.open("ab", buffering=1 << 16)
        self._flushed = time.monotonic()

    @classmethod
    def start(cls, root: Path | str, run: Mapping[str, Any]) -> Journal:
        """Make the attempt's folder under `root` and take its lock.

        `run` has `experiment`, `key`, `seed` and `name`, and may have `params` and `tags` (names
        to strings), `started` (unix seconds) and `host`.
        """
        described = {"params": {}, "tags": {}, "started": time.time()}
        described |= {"host": os.uname().nodename, "pid": os.getpid(), **run}
        parent = Path(root) / TRACKING
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        name = f"{now}-{run['key']}-s{run['seed']}-{os.getpid()}"
        # The folder gets its name once the lock is held and run.json is there, so that a job that
        # has just begun is never taken for one that was killed.
        draft = parent / f".{name}.part"
        draft.mkdir(parents=True)
        try:
            lock = os.open(draft / "lock", os.O_RDWR | os.O_CREAT, 0o644)
            take(lock)
            write_json(draft / "run.json", described)
        except (OSError, UserError):
            shutil.rmtree(draft)
            raise
        folder = parent / name
        draft.rename(folder)
        return cls(folder, lock)

    def log(self, measured: Measured) -> None:
        """Add one value (NaN and infinities as strings); later calls flush it within a second.

        Raises `ValueError` after `end`, and `OSError` naming the file on a full disk.
        """
        fields = measured._asdict()
        if not math.isfinite(measured.value):
            fields["value"] = str(measured.value)
        with naming(self._path):
            self._history.write(json.dumps(fields).encode() + b"\n")
        # Dev scores are few: they are shown at once.
        if measured.split == "dev" or time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what was logged to the file, where the follower sees it."""
        with naming(self._path):
            self._history.flush()
        self._flushed = time.monotonic()

    def end(
        self,
        status: Literal["FINISHED", "FAILED", "KILLED"],
        error: str | None = None,
        **more: Any,
    ) -> None:
        """Report how the run ended and free its lock.

        `more` may have `params` and `tags` that were not known at the start, the final `metrics`
        and their `step`, and when it `ended`, in unix seconds (default: now). Raises `OSError` on a
        full disk: to the follower the job then looks killed.
        """
        try:
            with naming(self._path):
                self._history.close()
            said = {"status": status, "error": error, "ended": time.time()}
            write_json(self.folder / END, said | more)
        finally:
            os.close(self._lock)


@dataclass
class Attempt:
    """Reads one attempt.

    Of the attempts that share a `group`, key and seed, the newest counts; `newer` is its name in
    the others, and None in itself.
    """

    path: Path
    group: tuple[str, str] = ("", "")
    newer: str | None = None

    def __post_init__(self) -> None:
        self.name = self.path.name  # sorts by start, and is the run's tag in MLflow
        self.history = self.path / "history.jsonl"  # missing until the job has opened it

    @cached_property
    def run(self) -> dict[str, Any]:
        """What the run is, as its job wrote it."""
        return read_json(self.path / "run.json")

    def alive(self) -> bool:
        """Whether the job still holds its lock."""
        return is_held(self.path / "lock")

    def end(self) -> dict[str, Any] | None:
        """How the job ended; None if it has not said so readably."""
        try:
            return read_json(self.path / END)
        except (FileNotFoundError, UserError):
            return None

    @property
    def status(self) -> str:
        """How the job said that it ended, `FINISHED`, `FAILED` or `KILLED`; "" if it has not."""
        return str((self.end() or {}).get("status", ""))

    def failure(self) -> str | None:
        """Why the job failed: its error, or that it was killed. None if it has not."""
        alive, end = self.alive(), self.end()  # In this order: a job frees its lock last.
        if end is None:
            return None if alive else "killed"
        return end.get("error", "no error was noted") if end.get("status") == "FAILED" else None

    def size(self) -> int:
        """Bytes of history so far."""
        return self.history.stat().st_size if self.history.exists() else 0

    def changed(self) -> float:
        """When the last value was measured, or else the job began, in unix seconds."""
        return max((row.time for row in self.rows()[0]), default=float(self.run["started"]))

    def rows(self, offset: int = 0, limit: int | None = None) -> tuple[list[Measured], int]:
        """Return up to `limit` values from byte `offset` on, and the offset after them.

        An incomplete last line is left for the next call; a complete line that cannot be read, as
        a power failure may leave one, is skipped.
        """
        found: list[Measured] = []
        if not self.history.exists():
            return found, offset
        with self.history.open("rb") as handle:
            handle.seek(offset)
            while len(found) != limit and (line := handle.readline()).endswith(b"\n"):
                offset += len(line)
                with suppress(ValueError, TypeError):
                    row = Measured(**json.loads(line))
                    found.append(row._replace(value=float(row.value)))
        return found, offset


def attempts(root: Path) -> list[Attempt]:
    """Return the attempts under `root`, oldest first; other folders there are a user's copies."""
    paths = sorted(path.parent for path in (root / TRACKING).glob("*/run.json"))
    found = [Attempt(p, (name[1], name[2])) for p in paths if (name := _NAME.fullmatch(p.name))]
    newest = {attempt.group: attempt.name for attempt in found}
    for attempt in found:
        newer = newest[attempt.group]
        attempt.newer = None if newer == attempt.name else newer
    return found


def newest_attempts(root: Path) -> dict[tuple[str, str], Attempt]:
    """Return the newest attempt by key and seed."""
    return {attempt.group: attempt for attempt in attempts(root) if attempt.newer is None}
