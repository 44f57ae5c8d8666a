"""The cosine schedule, without restarts (Loshchilov and Hutter, 2017, equation 5)."""

import math

from minbert.train.schedules import Schedule, with_warmup


def cosine(steps: int, warmup: float) -> Schedule:
    """The rate falls along half a cosine to 0, which it reaches after the last step."""
    return with_warmup(steps, warmup, lambda done: 0.5 * (1.0 + math.cos(math.pi * done)))
