"""Progress of long work, as lines in a log; times and numbers in words."""

import sys
import time
from collections.abc import Iterable
from contextlib import suppress

LINE_EVERY = 30.0  # seconds between plain lines


class Progress:
    """Steps done of all, with the loss, the rate and the time left."""

    def __init__(self, title: str) -> None:
        self.title = title

    def start(self, total: int, done: int = 0) -> None:
        """Begin work of `total` steps, of which an earlier run has done `done`."""
        self.total, self.done, self.before = total, done, done
        self.started = self.reported = time.monotonic()

    def update(self, epoch: int, loss: float) -> None:
        """Count one more step, done in `epoch` (from 1); `loss` is the newest that is known."""
        self.done += 1
        if time.monotonic() - self.reported > LINE_EVERY:
            self.reported = time.monotonic()
            rate = (self.reported - self.started) / (self.done - self.before)
            left = rate * (self.total - self.done)
            where = f"step {self.done}/{self.total}, epoch {epoch}"
            self.say(f"{where}, loss {loss:.4f}, {left:.0f} s left")

    def epoch(self, epoch: int, epochs: int, scores: dict[str, float], chosen: float) -> None:
        """Report the dev scores after an epoch."""
        figures = ", ".join(f"{task} {score:.3f}" for task, score in scores.items())
        self.say(f"epoch {epoch}/{epochs} dev: {figures}; selection {chosen:.4f}")

    def say(self, line: str) -> None:
        """Print one line; a full disk under the log does not stop the work."""
        with suppress(OSError):
            print(f"[{self.title}] {line}", file=sys.stderr, flush=True)


def counted(number: float, noun: str) -> str:
    """Return a number of things in words: `1 run`, `2 runs`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def some(names: Iterable[str], most: int = 3) -> str:
    """Return the first names, at most `most`, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if listed[most:] else ""
    return ", ".join(listed[:most]) + more


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes, or hours and minutes."""
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min" if seconds >= 60 else f"{round(seconds)} s"
    return f"{minutes // 60} h {minutes % 60} min"


def shown_size(number: float) -> str:
    """Return a number of bytes for people."""
    return f"{number / 1e6:,.1f} MB"
