"""The processes of one project, found by the folder they work in, and ways to harm them."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Running:
    """A process and the words it was started with."""

    pid: int
    words: tuple[str, ...]

    @property
    def step(self) -> str:
        """The word after `-m minbert`, "" for another program."""
        return self.words[3] if self.words[1:3] == ("-m", "minbert") else ""

    def kill(self, number: int = signal.SIGKILL) -> bool:
        """Send a signal; return whether it was still there."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def processes(folder: Path) -> list[Running]:
    """Return the processes whose working directory is `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "cwd").readlink() != folder:
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:  # It has ended meanwhile, or is somebody else's.
            continue
        found.append(Running(int(entry.name), tuple(map(os.fsdecode, words))))
    return found


def jobs(folder: Path) -> list[Running]:
    """Return the steps that run in `folder`."""
    return [p for p in processes(folder) if p.step not in ("", "follow", "publish", "plan")]


def followers(folder: Path) -> list[Running]:
    """Return the followers at work in `folder`, those of a last pass too."""
    return [p for p in processes(folder) if p.step == "follow"]


def kill_one(
    found: Callable[[Path], list[Running]],
    folder: Path,
    draw: random.Random,
    number: int = signal.SIGKILL,
) -> bool:
    """Send a signal to one process out of those found; return whether there was one."""
    there = sorted(found(folder), key=lambda p: p.pid)
    return bool(there) and draw.choice(there).kill(number)
