"""The one-cycle schedule (Smith and Topin, 2019), with the defaults that torch gives it."""

from __future__ import annotations

import math

from minbert.train.schedules import Schedule, Setting

FIRST, LAST = 1 / 25, 1 / 250_000
"""Factors of the rate at the first and at the last step."""

MOST, LEAST = 0.95, 0.85
"""Beta 1 where the rate is least, and where it is most."""


def onecycle(steps: int, warmup: float) -> Schedule:
    """Rise from 1/25 of the rate to it, then fall to 1/250,000 of it at the last step.

    Both along half a cosine. `warmup` is the rising share of the steps; 0 means torch's default,
    0.3. Beta 1 cycles the other way, from 0.95 to 0.85 and back, whatever the stage's own is.
    """
    top = (warmup or 0.3) * steps - 1
    """The step of the full rate; it may lie between two."""

    def at(step: int) -> Setting:
        if step <= top:
            risen = step / top if top > 0 else 0.0
            return Setting(_between(FIRST, 1.0, risen), _between(MOST, LEAST, risen))
        fallen = min(1.0, (step - top) / (steps - 1 - top))
        return Setting(_between(1.0, LAST, fallen), _between(LEAST, MOST, fallen))

    return at


def _between(start: float, end: float, done: float) -> float:
    """Return the point of half a cosine from `start` to `end` where the share `done` is done."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * done))
