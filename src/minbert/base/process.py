"""How a job behaves on its machine: it ends with its parent and runs in any home."""

import atexit
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

PAUSES = (0.3, 0.7, 1.5)
"""Seconds before each further attempt at a command that failed and must not."""
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask the kernel (Linux) to end this process when its parent ends, however that happens."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the parent process ended before this job began")


def settle_in() -> None:
    """Make this process work without a home folder: caches of libraries are then temporary."""
    # `Path.expanduser` raises an error if nothing says where home is, as for a container's user.
    if not os.access(os.path.expanduser("~"), os.W_OK | os.X_OK):
        folder = tempfile.mkdtemp(prefix="minbert-home-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            os.environ.setdefault(name, folder)


def birth(pid: int) -> str:
    """Return when process `pid` started, '' if it has ended, or 'unknown'."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="latin-1")  # its name is any bytes
    except ProcessLookupError:
        return ""
    except (PermissionError, FileNotFoundError):
        return "unknown"
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def answer_of(*command: str, timeout: float, final: Collection[int] = ()) -> list[str] | None:
    """Return the lines that a command prints; None if it is not installed.

    One that fails is tried again, unless it ends with one of the `final` statuses. Raises `OSError`
    or `SubprocessError` if that does not help, or if it does not answer within `timeout` seconds.
    """
    pauses = iter(PAUSES)
    while True:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=timeout, check=True
            )
            return done.stdout.splitlines()
        except FileNotFoundError:
            return None
        except (OSError, subprocess.CalledProcessError) as error:
            if getattr(error, "returncode", None) in final:
                raise
            if (pause := next(pauses, None)) is None:
                raise
            time.sleep(pause)


def lines_of(*command: str, timeout: float = 60, folder: Path | None = None) -> list[str]:
    """Return the lines that a command prints; none if it fails, hangs or is not installed."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=timeout, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()
