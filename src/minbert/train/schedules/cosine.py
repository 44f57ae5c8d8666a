"""The cosine schedule."""

from __future__ import annotations

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from minbert.train.schedules import with_warmup


def cosine(optimiser: Optimizer, steps: int, warmup: float) -> LRScheduler:
    """The rate falls along half a cosine to 0, which it reaches after the last step.

    Without restarts (Loshchilov and Hutter, 2017, equation 5).
    """
    return with_warmup(
        optimiser, steps, warmup, lambda done: 0.5 * (1.0 + math.cos(math.pi * done))
    )
