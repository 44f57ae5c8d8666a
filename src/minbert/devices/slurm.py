"""Questions to Slurm before a workflow starts: has it GPUs, did a killed workflow leave jobs?"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.process import answer_of, lines_of

COMMENT = "rule_"
"""The start of the comment of each job that Snakemake's executor submits, groups included."""
PATIENCE = 60.0  # seconds that sinfo has to answer, and cancelled jobs to end


def has_gpus(requested: str) -> bool:
    """Return whether training jobs request a GPU each; for `auto`, if any node has one."""
    if requested != "auto":
        return requested.startswith("cuda")
    try:
        lines = answer_of("sinfo", "--noheader", "--format=%G", timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(
            f"sinfo failed, so it is unknown whether the cluster has GPUs ({error}). Run `sinfo` "
            "to see why, or set `device: cuda` or `device: cpu`"
        ) from None
    return any(word.startswith("gpu") for line in lines for word in line.split(","))


def cancel_orphans(folder: Path, say: Callable[[str], None]) -> None:
    """Cancel the user's jobs that an earlier Snakemake in `folder` left, and `say` their numbers.

    Snakemake locks its folder, so any job submitted from there before is a leftover. Waits until
    they have ended: they save their state, and delete what they have not finished.
    """
    if found := _left_in(folder):
        say(f"cancels jobs that an earlier Snakemake left: {' '.join(found)}")
        subprocess.run(["scancel", *found], check=False)
    deadline = time.monotonic() + PATIENCE
    while set(found) & set(_left_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.5)


def _left_in(folder: Path) -> list[str]:
    lines = lines_of("squeue", "--me", "--noheader", "--format=%i|%Z|%k")
    jobs = [line.split("|", 2) for line in lines if line.count("|") >= 2]
    return [n for n, where, note in jobs if Path(where) == folder and note.startswith(COMMENT)]
