"""Learning-rate schedules over a stage's optimiser steps, as functions of the step's number."""

import math
from collections.abc import Callable
from typing import NamedTuple


class Setting(NamedTuple):
    """One step's factor of the base rate, and its beta 1 if that is not the stage's."""

    factor: float
    beta1: float | None = None


Schedule = Callable[[int], Setting]  # from a step, counted from 0


def with_warmup(steps: int, warmup: float, decay: Callable[[float], float]) -> Schedule:
    """Rise linearly over the `warmup` share of `steps`; then follow `decay` of the rest's share."""
    rising = round(warmup * steps)

    def at(step: int) -> Setting:
        if step < rising:
            return Setting((step + 1) / (rising + 1))
        return Setting(decay((step - rising) / max(1, steps - rising)))

    return at


def constant(steps: int, warmup: float) -> Schedule:
    return with_warmup(steps, warmup, lambda _: 1.0)


def linear(steps: int, warmup: float) -> Schedule:
    """The rate falls in a straight line to 0, which it reaches after the last step."""
    return with_warmup(steps, warmup, lambda done: 1.0 - done)


def cosine(steps: int, warmup: float) -> Schedule:
    """The rate falls along half a cosine to 0 (Loshchilov and Hutter, 2017, equation 5)."""
    return with_warmup(steps, warmup, lambda done: _between(1.0, 0.0, done))


def onecycle(steps: int, warmup: float) -> Schedule:
    """Smith and Topin (2019), with the defaults that torch gives it.

    Rises from 1/25 of the rate, then falls to 1/250,000 of it, both along half a cosine.
    """
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
