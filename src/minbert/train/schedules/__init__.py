"""Learning-rate schedules over a stage's optimiser steps, as functions of the step's number."""

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
