"""Two sides timed in turn, so that whatever else the machine does falls on both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from benchmarks.machine import synchronise

Side = Callable[[], object]
"""One unit of work: a training step over the same batches, or a pass over a dev set."""


class Spread(NamedTuple):
    """The median of some repeats, and their quartiles."""

    median: float
    low: float
    high: float


class Timing(NamedTuple):
    """Seconds a unit of each side, and how many times as long the other takes."""

    ours: Spread
    other: Spread | None
    ratio: Spread | None


def spread(values: Sequence[float]) -> Spread:
    """Return median and quartiles of one value or more."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(middle, low, high)


def alternate(
    ours: Side, other: Side | None, device: torch.device, *, units: int, repeats: int
) -> Timing:
    """Time `units` of each side in turn, `repeats` times after one turn that is not counted.

    The ratio is taken within a turn, where the machine was the same for both.
    """
    sides = [ours] if other is None else [ours, other]
    seconds: list[list[float]] = [[] for _ in sides]
    for turn in range(repeats + 1):
        for number, side in enumerate(sides if turn % 2 else sides[::-1]):
            place = number if turn % 2 else len(sides) - 1 - number
            synchronise(device)
            start = time.perf_counter()
            for _ in range(units):
                side()
            synchronise(device)
            if turn:
                seconds[place].append((time.perf_counter() - start) / units)
    if other is None:
        return Timing(spread(seconds[0]), None, None)
    ratios = [b / a for a, b in zip(*seconds, strict=True)]
    return Timing(spread(seconds[0]), spread(seconds[1]), spread(ratios))
