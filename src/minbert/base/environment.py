"""What a run ran on: versions, commit, device. Recorded beside results; part of no key."""

import platform
import resource
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from minbert.base.process import lines_of
from minbert.base.version import VERSION

DEPENDENCIES = ("torch", "numpy", "pyarrow", "tokenizers", "safetensors", "scipy")
"""The packages that decide a run's numbers."""

CPUS, STATUS = Path("/proc/cpuinfo"), Path("/proc/self/status")


def commit() -> str:
    """Return the short git commit of this copy of minbert, with `+` if its code differs from it.

    Code is the package, new modules included; grids and configuration are not. It is `unknown`
    without git, or if the repository around the copy does not track it: a wheel in an environment
    inside another project is of none of that project's commits.
    """
    here = Path(__file__)
    if not lines_of("git", "ls-files", here.name, timeout=10, folder=here.parent):
        return "unknown"
    described = ("describe", "--always", "--exclude=*", "--abbrev=10")
    changed = ("--no-optional-locks", "status", "--porcelain", "--branch", "--", "..")
    found, status = (
        lines_of("git", *words, timeout=10, folder=here.parent) for words in (described, changed)
    )
    # The first line of the status is the branch.
    return found[0] + "+" * (len(status) > 1) if found and status else "unknown"


def environment(device: str, threads: int, precision: str) -> dict[str, Any]:
    """Return versions, commit, device, threads and precision of this process, and the CPU."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        # minbert itself need not be installed: an environment may have its packages alone.
        "packages": {"minbert": VERSION, **{name: _version(name) for name in DEPENDENCIES}},
        "commit": commit(),
        "cpu": cpu(),
        "device": device,
        "threads": threads,
        "precision": precision,
    }


def cpu() -> str:
    """Return the model of this machine's CPU, as far as the system names it."""
    lines = CPUS.read_text().splitlines() if CPUS.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def peak_memory() -> int:
    """Return the most main memory that this process has held, in bytes."""
    # On Linux `getrusage` would also count the parent process. Some sandboxes do not tell `VmHWM`.
    for line in STATUS.read_text().splitlines() if STATUS.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
