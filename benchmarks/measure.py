"""Sides timed in turn, so that whatever else the machine does falls on all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch

from benchmarks.machine import synchronise

Side = Callable[[], object]
"""One unit of work: training steps over the same batches, or a pass over a dev set."""

Name = TypeVar("Name", bound=Hashable)

LEAST = 3
"""Turns that are counted however long they take: fewer have no quartiles."""


class Spread(NamedTuple):
    """The median of some repeats, and their quartiles."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return median and quartiles of one value or more."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(middle, low, high)


def alternate(
    sides: Mapping[Name, Side],
    device: torch.device,
    *,
    repeats: int,
    seconds: float = float("inf"),
) -> dict[Name, list[float]]:
    """Return the seconds of each side in each of `repeats` turns, after one that is not counted.

    In a turn each side works once; every other turn goes through them backwards. Ratios are to be
    taken within a turn, where the machine was the same for all. After `seconds`, and `LEAST` turns
    that count, no turn begins.
    """
    taken: dict[Name, list[float]] = {name: [] for name in sides}
    begin = time.perf_counter()
    for turn in range(repeats + 1):
        if turn > LEAST and time.perf_counter() - begin > seconds:
            break
        for name in sides if turn % 2 else reversed(sides):
            synchronise(device)
            start = time.perf_counter()
            sides[name]()
            synchronise(device)
            if turn:
                taken[name].append(time.perf_counter() - start)
    return taken
