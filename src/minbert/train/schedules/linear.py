"""The linear schedule: the rate falls in a straight line to 0, reached after the last step."""

from minbert.train.schedules import Schedule, with_warmup


def linear(steps: int, warmup: float) -> Schedule:
    return with_warmup(steps, warmup, lambda done: 1.0 - done)
