"""Learning-rate schedules over a stage's optimiser steps, as torch schedulers."""

from __future__ import annotations

from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def with_warmup(
    optimiser: Optimizer, steps: int, warmup: float, decay: Callable[[float], float]
) -> LambdaLR:
    """Rise linearly over the first `warmup` share of `steps`, then follow `decay`.

    `decay` maps the share of the remaining steps done, in [0, 1], to a factor of the base rate.
    """
    rising = round(warmup * steps)

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / (rising + 1)
        return decay((step - rising) / max(1, steps - rising))

    return LambdaLR(optimiser, factor)
