"""One follower for each results folder, and for as long as its workflow lives."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minbert.track.journal import TRACKING
from minbert.track.store import say


class Watched:
    """A process, told from a later one of the same number by the time it started."""

    def __init__(self, pid: int) -> None:
        """Look at process `pid` as it is now; it may be gone already."""
        self.pid = pid
        self._birth = _birth(pid)

    def lives(self) -> bool:
        """Whether it still runs. One that has ended and was not waited for does not."""
        return self._birth != "" and _birth(self.pid) == self._birth


@contextmanager
def try_lock(root: Path) -> Iterator[bool]:
    """Yield whether this process is now the follower of `root`."""
    path = root / TRACKING / ".follower"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def only_one(root: Path, watched: Watched | None, interval: float) -> Iterator[bool]:
    """Wait for the lock while the watched process lives; yield whether it is ours."""
    told = False
    while True:
        with try_lock(root) as mine:
            if mine:
                yield True
                return
        if not told:
            outcome = "leaving" if watched is None else "waiting for it to end"
            say(f"another follower works on {root / TRACKING}; {outcome}")
            told = True
        if watched is None or not watched.lives():
            yield False
            return
        time.sleep(interval)


def _birth(pid: int) -> str:
    """Return when process `pid` started, '' if it is gone: a number may be given out again."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "alive"
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return "alive"
    fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
