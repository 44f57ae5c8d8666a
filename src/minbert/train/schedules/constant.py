"""The constant schedule."""

from minbert.train.schedules import Schedule, with_warmup


def constant(steps: int, warmup: float) -> Schedule:
    return with_warmup(steps, warmup, lambda _: 1.0)
