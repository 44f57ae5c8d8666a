"""The files by which a training job tells how it goes. Imports the standard library only.

A job's folder is `ROOT/tracking/ATTEMPT/`:

- `run.json`: what the run is (see `Journal.start`);
- `lock`: held with `flock` while the process lives, so that a SIGKILL shows;
- `history.jsonl`: one JSON object a line for each measured value;
- `end.json`: how it ended. A folder without it whose lock is free was killed.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from time import time as unix_time
from typing import Any, Literal

from minbert.common.files import naming, write_json

TRACKING = "tracking"
_NEEDED = ("experiment", "key", "seed", "name")
_FLUSH_SECONDS = 1.0
_STAMP = "%Y%m%dT%H%M%S.%fZ"


class Journal:
    """One attempt at one run. Make it with `Journal.start`, close it with `end`."""

    def __init__(self, folder: Path, lock: int) -> None:
        """Write into `folder`; `lock` is the open file descriptor that holds its lock."""
        self.folder = folder
        self._lock = lock
        self._path = folder / "history.jsonl"
        self._history = self._path.open("ab", buffering=1 << 16)
        self._flushed = monotonic()

    @classmethod
    def start(cls, root: Path | str, run: Mapping[str, Any]) -> Journal:
        """Make the attempt's folder under `root` and take its lock.

        `run` has `experiment`, `key`, `seed` and `name`, and may have `params` and `tags` (names
        to strings), `datasets` (a list of `name`, `split`, `digest`, `source`, `rows`) and
        `started` (unix seconds). Raises `ValueError` if one of the first four is missing.
        """
        missing = [name for name in _NEEDED if name not in run]
        if missing:
            raise ValueError(f"a run needs {', '.join(_NEEDED)}; missing: {', '.join(missing)}")
        described = {"params": {}, "tags": {}, "datasets": [], "started": unix_time(), **run}
        described["host"] = os.uname().nodename
        described["pid"] = os.getpid()
        parent = Path(root) / TRACKING
        which = f"{run['key']}-s{run['seed']}"
        name = f"{_stamp(parent, which)}-{which}-{os.getpid()}"
        # The folder gets its name only when the lock is held and run.json is there: whoever sees
        # it can tell a job that has just begun from one that was killed.
        draft = parent / f".{name}.part"
        draft.mkdir(parents=True)
        try:
            lock = os.open(draft / "lock", os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(lock, fcntl.LOCK_EX)
            write_json(draft / "run.json", described)
        except OSError:
            shutil.rmtree(draft)
            raise
        folder = parent / name
        draft.rename(folder)
        return cls(folder, lock)

    def log(
        self,
        step: int,
        epoch: int,
        split: str,
        task: str,
        metric: str,
        value: float,
        time: float,
    ) -> None:
        """Add one value; it reaches the file within about a second of further calls.

        `step` counts optimiser steps; `time` is the value's own, in unix seconds. NaN and
        infinities are kept (as strings: JSON has no numbers for them). Raises `ValueError` after
        `end`, and `OSError` naming the file on a full disk.
        """
        row = {
            "step": int(step),
            "epoch": int(epoch),
            "split": split,
            "task": task,
            "metric": metric,
            "value": _json_safe(float(value)),
            "time": float(time),
        }
        with naming(self._path):
            self._history.write(json.dumps(row).encode() + b"\n")
        # Dev scores come a few an epoch: they are shown at once.
        if split == "dev" or monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Hand what was logged to the file, where the follower sees it."""
        with naming(self._path):
            self._history.flush()
        self._flushed = monotonic()

    def end(
        self,
        status: Literal["FINISHED", "FAILED"],
        error: str | None = None,
        artifacts: Iterable[Path] | Mapping[str, Path] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Say how the run ended and let its lock go.

        `artifacts` are files to attach, {name in the run: path}, or a list of those that keep their
        names; they must stay where they are until the follower has taken them. `params` and `tags`
        are what was not known at the start, such as seconds.
        Raises `OSError` on a full disk: to the follower the job then looks killed.
        """
        if not isinstance(artifacts, Mapping):
            artifacts = {path.name: path for path in artifacts}
        try:
            with naming(self._path):
                self._history.close()
            write_json(
                self.folder / "end.json",
                {
                    "status": status,
                    "error": error,
                    "ended": unix_time(),
                    "artifacts": {name: str(p.absolute()) for name, p in artifacts.items()},
                    "params": dict(params or {}),
                    "tags": dict(tags or {}),
                },
            )
        finally:
            os.close(self._lock)


def _stamp(parent: Path, which: str) -> str:
    """Return the time as a word, later than that of every earlier attempt at the same run.

    Attempts are told apart by it, the last one counts, and a clock may be set back.
    """
    now = datetime.now(UTC)
    earlier = [path.name.partition("-")[0] for path in parent.glob(f"[!.]*-{which}-*")]
    if earlier:
        latest = datetime.strptime(max(earlier), _STAMP).replace(tzinfo=UTC)
        now = max(now, latest + timedelta(microseconds=1))
    return now.strftime(_STAMP)


def _json_safe(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
