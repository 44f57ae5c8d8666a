"""How a process starts and ends, what it imports, its environment, and commands that it runs."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def end_with_parent() -> None:
    """Ask the kernel (Linux) to end this process when its parent ends, however that happens."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        raise SystemExit("the parent process ended before this job began")


@contextmanager
def set_env(name: str, value: str) -> Iterator[None]:
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


def without_pandas() -> None:
    """Have pyarrow look for pandas now, in vain; it asks once in a process.

    Before it makes an array of anything, pyarrow imports pandas to see whether the thing is a data
    frame's column: half a second in each of a grid's jobs, none of which has data frames.
    """
    if "pandas" in sys.modules:
        return

    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)

    finder: Any = SimpleNamespace(find_spec=find_spec)
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow

        pyarrow.array([0])
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def imports() -> Iterator[None]:
    """Import modules in the block without looking for garbage in them, then, later or at the end.

    torch makes 300,000 objects that stay. Python's collector goes through them as they are made, in
    training and at the end: half a second in each of a grid's jobs.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def answer_of(*command: str, timeout: float, folder: Path | None = None) -> list[str]:
    """Return the lines of a command; `OSError` or `SubprocessError` if it fails or hangs."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=timeout, check=True
    )
    return done.stdout.splitlines()


def lines_of(*command: str, timeout: float = 60, folder: Path | None = None) -> list[str]:
    """Return the lines that a command prints; none if it fails, hangs or is not installed."""
    try:
        return answer_of(*command, timeout=timeout, folder=folder)
    except (OSError, subprocess.SubprocessError):
        return []
