"""Jobs as good citizens of a machine: end with the parent, one at a time in a folder, at home."""

from __future__ import annotations

import atexit
import codecs
import ctypes
import errno
import fcntl
import io
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from minbert.common.errors import UserError
from minbert.common.files import naming

PR_SET_PDEATHSIG = 1
LOAD = Path("/proc/loadavg")


def end_with_parent() -> None:
    """Ask the kernel (Linux) to end this process when its parent ends, however that happens.

    A job that outlived a killed Snakemake would train beside its own successor.
    """
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the parent process ended before this job began")


PATIENCE = 120.0
"""Seconds that a cluster's job waits for another that makes the same, which was told to stop."""

NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


def patience() -> float:
    """Return the seconds to wait for a process that makes the same.

    On a cluster a job may start while the one that it replaces saves its state on another node.
    """
    return PATIENCE if os.environ.get("SLURM_JOB_ID") else 0.0


@contextmanager
def only_one(folder: Path, what: str, patience: float = 0.0) -> Iterator[bool]:
    """Hold an exclusive lock on `folder` for the block; a process that dies frees it.

    Waits up to `patience` seconds for another process that has it, saying so, and yields whether
    it did. Raises `UserError` naming the holder if it has it still, or if the file system has no
    locks: two processes could then write the same files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock"
    with path.open("a+", encoding="utf-8") as handle:
        deadline = time.monotonic() + patience
        waited = False
        while not _locked(handle, path):
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            if time.monotonic() >= deadline:
                raise UserError(
                    f"{what} is already running (process {holder}, lock {path}). "
                    "Wait for it to end, or stop it, then run again."
                )
            if not waited:
                print(f"waits for process {holder}: {what}", file=sys.stderr, flush=True)
            waited = True
            time.sleep(0.2)
        with naming(path):
            handle.truncate(0)
            handle.write(f"{os.getpid()} on {os.uname().nodename}")
            handle.flush()
        yield waited


def _locked(handle: IO[str], path: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise UserError(
            f"{path} cannot be locked ({error.strerror}): its file system has no locks, and "
            "without them two jobs could train the same thing. Mount it with them (Lustre: "
            "`-o flock`; NFS: version 4, or lockd), or put `results` elsewhere."
        ) from None
    return True


def settle_in() -> None:
    """Work wherever this process finds itself: without a home folder, in any locale.

    Libraries keep caches at home; where that cannot be written they get a folder that goes with
    the process. In a locale without an encoding of its own (`LC_ALL=C`) text is printed as UTF-8;
    signs that another encoding has not, as escapes.
    """
    if not os.access(Path("~").expanduser(), os.W_OK | os.X_OK):
        folder = tempfile.mkdtemp(prefix="minbert-home-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            os.environ.setdefault(name, folder)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            plain = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(
                encoding="utf-8" if plain else stream.encoding, errors="backslashreplace"
            )


def is_held(path: Path) -> bool:
    """Return whether a process has a lock (`flock`) on the file; False where there is no file.

    It asks for a shared lock, so that two who ask at once do not take each other for the holder,
    and opens to read, which is all that another user's file allows.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def others_running() -> int:
    """Return how many threads of other processes keep a core busy; 0 where nobody tells.

    The least of three looks in a tenth of a second: the starter of this process may still run.
    """
    if not LOAD.exists():
        return 0
    found = []
    for _ in range(3):
        running, _, _ = LOAD.read_text().split()[3].partition("/")
        found.append(int(running) - 1)
        time.sleep(0.05)
    return max(0, min(found))
