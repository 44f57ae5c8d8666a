"""Progress on long work: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any

LINE_EVERY = 30.0
"""Seconds between plain lines."""


class Progress:
    """Steps done of all, with the loss, the rate and the time left; `silent` tells nothing."""

    def __init__(self, title: str, silent: bool = False) -> None:
        self.title = title
        self.silent = silent
        self.bar: Any = None
        self.total = self.done = self.before = 0
        self.started = self.told = time.monotonic()

    def start(self, total: int, done: int = 0) -> None:
        """Begin work of `total` steps, `done` of which an earlier run has done."""
        self.total = total
        self.done = self.before = done
        self.started = self.told = time.monotonic()
        if sys.stderr.isatty() and not self.silent:
            from tqdm import tqdm

            self.bar = tqdm(total=total, initial=done, desc=self.title, unit="step")

    def update(self, epoch: int, loss: float) -> None:
        """One more step is done, in `epoch` (from 1); `loss` is the latest one known."""
        self.done += 1
        if self.bar is not None:
            self.bar.update()
            self.bar.set_postfix(epoch=epoch, loss=f"{loss:.3f}", refresh=False)
        elif time.monotonic() - self.told > LINE_EVERY:
            self.told = time.monotonic()
            rate = (self.told - self.started) / (self.done - self.before)
            left = rate * (self.total - self.done)
            self.say(
                f"step {self.done}/{self.total}, epoch {epoch}, loss {loss:.4f}, {left:.0f} s left"
            )

    def epoch(self, epoch: int, epochs: int, scores: dict[str, float], chosen: float) -> None:
        """Tell the dev scores after an epoch."""
        figures = ", ".join(f"{task} {score:.3f}" for task, score in scores.items())
        self.say(f"epoch {epoch}/{epochs} dev: {figures}; selection {chosen:.4f}")

    def say(self, line: str) -> None:
        """Print one line without tearing the bar; a log whose disk is full stops no training."""
        if self.silent:
            return
        line = f"[{self.title}] {line}"
        with suppress(OSError):
            if self.bar is not None:
                self.bar.write(line, file=sys.stderr)
            else:
                print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the bar."""
        if self.bar is not None:
            self.bar.close()
