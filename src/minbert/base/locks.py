"""Locks on files (`flock`). A lock ends with the process that holds it, however that ends."""

import errno
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from minbert.base.errors import UserError, naming

FOREVER = float("inf")
CLUSTER_PATIENCE = 120.0
_LOOK_SECONDS = 0.2
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


def take(handle: int | IO[Any], path: Path, patience: float = 0.0, *, shared: bool = False) -> bool:
    """Lock the open file `handle` and return whether that succeeded within `patience` seconds.

    The lock is exclusive unless `shared`, and is freed when the file is closed. Raises `UserError`
    naming `path` if the file system has no locks.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            raise UserError(
                f"{path} cannot be locked ({error.strerror}): its file system has no locks, and "
                "without them two jobs could write the same files. Mount it with locks (Lustre: "
                "`-o flock`; NFS: version 4, or lockd), or put `results` elsewhere."
            ) from None
        time.sleep(_LOOK_SECONDS)


def is_held(path: Path) -> bool:
    """Return whether a process holds a lock on the file; False if there is no such file."""
    try:
        # Shared, so that two that ask at once do not take each other for the holder.
        with path.open() as handle:
            return not take(handle, path, shared=True)
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
        if waited := not take(handle, path):
            holder = path.read_text(encoding="utf-8").strip() or "unknown"
            if patience:
                print(f"waiting for process {holder}: {what}", file=sys.stderr, flush=True)
            if not take(handle, path, patience):
                raise UserError(
                    f"{what} is already running (process {holder}, lock {path}). Wait for it to "
                    "end, or stop it, then run again."
                )
        with naming(path):
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
    # On a disk that can only be read, a shared lock still keeps others away.
    with path.open("r" if path.exists() and not alone else "a+", encoding="utf-8") as handle:
        if not take(handle, path, shared=not alone):
            other = "a workflow or a job, perhaps of another clone of the repository, works there"
            holder = other if alone else "`minbert gc`, `adopt` or `unbundle` works there"
            raise UserError(f"{root} is in use: {holder}. Wait for its end, then run again.")
        yield


def remove_half_written(folder: Path) -> None:
    """Delete the files under `folder` that killed processes were writing, as of `files.whole`.

    Whoever calls it holds the lock without which nobody writes there.
    """
    for path in folder.rglob(".*.[0-9]*.part"):
        path.unlink()


def patience() -> float:
    """Return the seconds to wait for another process that makes the same files."""
    # On a cluster, a job may start while the one it replaces still saves its state elsewhere.
    return CLUSTER_PATIENCE if os.environ.get("SLURM_JOB_ID") else 0.0
