"""The linear schedule."""

from minbert.train.schedules import Schedule, with_warmup


def linear(steps: int, warmup: float) -> Schedule:
    """The rate falls in a straight line to 0, which it reaches after the last step."""
    return with_warmup(steps, warmup, lambda done: 1.0 - done)
