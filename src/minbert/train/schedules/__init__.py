"""Learning-rate schedules over a stage's optimiser steps, as functions of the step's number."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Setting(NamedTuple):
    """What one step is made with: a factor of the base rate; beta 1, unless it is the stage's."""

    factor: float
    beta1: float | None = None


Schedule = Callable[[int], Setting]
"""From a step, counted from 0, to its setting."""


def with_warmup(steps: int, warmup: float, decay: Callable[[float], float]) -> Schedule:
    """Rise linearly over the first `warmup` share of `steps`, then follow `decay`.

    `decay` maps the share of the remaining steps done, in [0, 1], to a factor of the base rate.
    """
    rising = round(warmup * steps)

    def at(step: int) -> Setting:
        if step < rising:
            return Setting((step + 1) / (rising + 1))
        return Setting(decay((step - rising) / max(1, steps - rising)))

    return at
