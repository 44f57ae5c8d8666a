"""The one-cycle schedule (Smith and Topin, 2019), as torch has it."""

from __future__ import annotations

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR


def onecycle(optimiser: Optimizer, steps: int, warmup: float) -> LRScheduler:
    """Rise from 1/25 of the rate to it, then fall to 1/250,000; beta 1 cycles the other way.

    `warmup` is the rising share of the steps; 0 means torch's default, 0.3.
    """
    peak = [group["lr"] for group in optimiser.param_groups]
    return OneCycleLR(optimiser, max_lr=peak, total_steps=steps + 1, pct_start=warmup or 0.3)
