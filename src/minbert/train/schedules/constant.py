"""The constant schedule."""

from __future__ import annotations

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from minbert.train.schedules import with_warmup


def constant(optimiser: Optimizer, steps: int, warmup: float) -> LRScheduler:
    """The rate stays as it is after the warm-up."""
    return with_warmup(optimiser, steps, warmup, lambda _: 1.0)
