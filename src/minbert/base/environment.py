"""What a run ran on: versions, commit, device. Recorded beside results; part of no key."""

import platform
import re
import resource
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from minbert.base.process import lines_of
from minbert.base.version import VERSION

DEPENDENCIES = ("torch", "numpy", "pyarrow", "tokenizers", "safetensors", "scipy")
"""The packages that decide a run's numbers."""

CPUS, STATUS = Path("/proc/cpuinfo"), Path("/proc/self/status")


def commit() -> str:
    """Return the short git commit of this copy of minbert, with `+` if its code differs from it.

    It is the last commit that changed the code: the package, new modules included, without grids
    and configuration. It is `unknown` without git, or if the repository around the copy does not
    track it, as of a wheel in an environment inside another project.
    """
    package = Path(__file__).parents[1]
    last = ("log", "-1", "--abbrev=10", "--format=%h", "--", ".")
    changed = ("--no-optional-locks", "status", "--porcelain", "--", ".")
    found, status = (lines_of("git", *of, timeout=10, folder=package) for of in (last, changed))
    return found[0] + "+" * bool(status) if found else "unknown"


def environment(device: str, threads: int, precision: str) -> dict[str, Any]:
    """Return versions, commit, device, threads and precision of this process, and the CPU."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        # minbert itself need not be installed: an environment may have its packages alone.
        "packages": {"minbert": VERSION, **{name: version(name) for name in DEPENDENCIES}},
        "commit": commit(),
        "cpu": cpu(),
        "device": device,
        "threads": threads,
        "precision": precision,
    }


def cpu() -> str:
    """Return the model of this machine's CPU, as far as the system names it."""
    found = re.search(r"^model name\s*: (.*)", CPUS.read_text() if CPUS.exists() else "", re.M)
    return found[1] if found else platform.processor()


def peak_memory() -> int:
    """Return the most main memory that this process has held, in bytes."""
    # On Linux `getrusage` would also count the parent process. Some sandboxes do not tell `VmHWM`.
    if found := re.search(r"VmHWM:\s*(\d+)", STATUS.read_text() if STATUS.exists() else ""):
        return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
