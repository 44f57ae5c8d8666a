"""What Slurm is asked before a workflow runs on it: for GPUs, and for jobs left by a killed one."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

COMMENT = "rule_"
"""How the comments of jobs begin that Snakemake's executor has submitted, groups too."""

PATIENCE = 60.0
"""Seconds that orphans have to end in."""


def has_gpus(wish: str) -> bool:
    """Return whether training jobs are to ask for a GPU each.

    `cuda` always does, `cpu` never; `auto` does if any node of the cluster has one.
    """
    if wish != "auto":
        return wish.startswith("cuda")
    lines = _lines("sinfo", "--noheader", "--format=%G")
    return any(word.startswith("gpu") for line in lines for word in line.split(","))


def cancel_orphans(folder: Path) -> list[str]:
    """Cancel the user's jobs that an earlier Snakemake in `folder` has left; return their numbers.

    Snakemake's lock keeps a second one out of its folder, so at the start of a workflow whatever
    was submitted there is left over. They are told to stop, save their state, and are waited for.
    """
    found = _left_in(folder)
    if found:
        subprocess.run(["scancel", *found], check=False)
    deadline = time.monotonic() + PATIENCE
    while set(found) & set(_left_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def _left_in(folder: Path) -> list[str]:
    lines = _lines("squeue", "--me", "--noheader", "--format=%i|%Z|%k")
    jobs = [line.split("|", 2) for line in lines if line.count("|") >= 2]
    return [
        number
        for number, where, comment in jobs
        if Path(where) == folder and comment.startswith(COMMENT)
    ]


def _lines(*words: str) -> list[str]:
    """Return the lines that a command of Slurm prints; none where it cannot be had."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()
