"""Locks on files (`flock`). A lock ends with the process that holds it, however that ends."""

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from minbert.base.errors import UserError


def take(handle: int | IO[Any], patience: float = 0.0, *, shared: bool = False) -> bool:
    """Lock an open file, exclusively unless `shared`; return if it succeeded in `patience` s."""
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(0.2)


def is_held(path: Path) -> bool:
    """Return whether a process holds a lock on the file; False if there is no such file."""
    try:
        # Shared, so that two that ask at once do not take each other for the holder.
        with path.open() as handle:
            return not take(handle, shared=True)
    except FileNotFoundError:
        return False


@contextmanager
def exclusive_lock(folder: Path, what: str, patience: float = 0.0) -> Iterator[bool]:
    """Hold the lock of `folder` for the block, and yield whether another process held it before.

    Waits up to `patience` seconds for that process. Then raises `UserError` naming it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock"
    with path.open("a+", encoding="utf-8") as handle:
        if waited := not take(handle):
            holder = path.read_text(encoding="utf-8").strip() or "unknown"
            if patience:
                print(f"waiting for process {holder}: {what}", file=sys.stderr, flush=True)
            if not take(handle, patience):
                raise UserError(
                    f"{what} is already running (process {holder}, lock {path}). Wait for it to "
                    "end, or stop it, then run again."
                )
        handle.truncate(0)
        handle.write(f"{os.getpid()} on {os.uname().nodename}")
        handle.flush()
        yield waited


@contextmanager
def results_lock(root: Path, *, alone: bool = False) -> Iterator[None]:
    """Hold the results under `root` for the block, with others or `alone`.

    Jobs and workflows hold them together, from whatever clone they run; what deletes results or
    gives them other keys holds them alone. Raises `UserError` if they are held in the other way.
    """
    path = root / "work" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as handle:  # NFS grants a shared lock only on a file open for reading.
        if not take(handle, shared=not alone):
            other = "a workflow or a job is running, perhaps from another clone of the repository"
            holder = other if alone else "`minbert gc`, `adopt` or `unbundle` is running"
            raise UserError(f"{root} is in use: {holder}. Wait for it to end, then run again.")
        yield


def check_results(root: Path) -> None:
    """Raise `UserError` if there is no results folder `root`, which a lock would make."""
    if not root.is_dir():
        raise UserError(f"{root}: there is no such results folder")


def remove_half_written(folder: Path) -> None:
    """Delete the files under `folder` that killed processes were writing, as of `files.whole`.

    Whoever calls it holds the lock without which nobody writes there.
    """
    for path in folder.rglob(".*.[0-9]*.part"):
        path.unlink()


def patience() -> float:
    """Return the seconds to wait for another process that makes the same files."""
    # On a cluster, a job may start while the one it replaces still saves its state elsewhere.
    return 120.0 if os.environ.get("SLURM_JOB_ID") else 0.0
