"""The one-cycle schedule (Smith and Topin, 2019), with the defaults that torch gives it."""

import math

from minbert.train.schedules import Schedule, Setting


def onecycle(steps: int, warmup: float) -> Schedule:
    """Rise from 1/25 of the rate, then fall to 1/250,000 of it, both along half a cosine."""
    # `warmup` is the rising share; 0 means torch's default. Beta 1 moves the other way.
    top = (warmup or 0.3) * steps - 1  # the step of the full rate; it may lie between two

    def at(step: int) -> Setting:
        if step <= top:
            risen = step / top if top > 0 else 0.0
            return Setting(_between(1 / 25, 1.0, risen), _between(0.95, 0.85, risen))
        fallen = min(1.0, (step - top) / (steps - 1 - top))
        return Setting(_between(1.0, 1 / 250_000, fallen), _between(0.85, 0.95, fallen))

    return at


def _between(start: float, end: float, done: float) -> float:
    """Return the point of half a cosine from `start` to `end` where the share `done` is done."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * done))
