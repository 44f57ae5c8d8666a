"""What a run ran on: versions, commit, device. Recorded beside results, in no key."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

DEPENDENCIES = ("torch", "numpy", "pyarrow", "tokenizers", "safetensors", "scipy")
"""The packages that a run's numbers come from."""


def commit(folder: Path | None = None) -> str:
    """Return the short git commit of `folder`, with `+` if files differ from it, or `unknown`."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=10", "--dirty=+"]
    try:
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return result.stdout.strip()


def environment(device: str, threads: int, precision: str) -> dict[str, Any]:
    """Return versions, commit, device, threads and precision of this process."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in ("minbert", *DEPENDENCIES)},
        "commit": commit(),
        "device": device,
        "threads": threads,
        "precision": precision,
    }


STATUS = Path("/proc/self/status")


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return {package: version} of what is installed here; `absent` for what is not.

    Builds of one version count as one: which build a machine has follows from its devices.
    """
    return {name: _version(name).partition("+")[0] for name in packages}


def peak_memory() -> int:
    """Return the most main memory this process has held, in bytes.

    Linux counts it anew from the start of the program; what `getrusage` tells there is at least
    what the parent held when it started this process.
    """
    if STATUS.exists():
        (line,) = (t for t in STATUS.read_text().splitlines() if t.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
