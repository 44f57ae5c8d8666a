"""The linear schedule."""

from __future__ import annotations

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from minbert.train.schedules import with_warmup


def linear(optimiser: Optimizer, steps: int, warmup: float) -> LRScheduler:
    """The rate falls in a straight line to 0, which it reaches after the last step."""
    return with_warmup(optimiser, steps, warmup, lambda done: 1.0 - done)
