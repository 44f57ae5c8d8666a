"""The constant schedule."""

from __future__ import annotations

from minbert.train.schedules import Schedule, with_warmup


def constant(steps: int, warmup: float) -> Schedule:
    """The rate stays as it is after the warm-up."""
    return with_warmup(steps, warmup, lambda _: 1.0)
