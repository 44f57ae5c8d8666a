"""The one-cycle schedule (Smith and Topin, 2019), as torch has it."""

from __future__ import annotations

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR


def onecycle(optimiser: Optimizer, steps: int, warmup: float) -> LRScheduler:
    """Rise from 1/25 of the rate to it, then fall to 1/250,000 of it at the last step.

    `warmup` is the rising share of the steps; 0 means torch's default, 0.3. Beta 1 cycles the
    other way, from 0.95 to 0.85 and back, whatever the optimiser's own is.
    """
    peak = [group["lr"] for group in optimiser.param_groups]
    rising = warmup or 0.3
    if rising * steps == 1:
        rising *= 1 + 1e-9  # torch would divide 0 by 0 at the first step
    return OneCycleLR(optimiser, max_lr=peak, total_steps=steps, pct_start=rising)
