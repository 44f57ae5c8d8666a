"""Random choices that come out the same on any machine and Python version.

Only `random.Random.random` is guaranteed never to change for a given seed, so every choice here
is made of it, of whole-number steps and of sums, and of nothing that a C library may round.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A random stream named by its seeds: the same names give the same stream."""

    def __init__(self, *seeds: object) -> None:
        self._random = random.Random(":".join(map(str, seeds))).random

    def chance(self, probability: float) -> bool:
        """Return True with `probability`."""
        return self._random() < probability

    def below(self, n: int) -> int:
        """Return a whole number in [0, n), all equally likely."""
        return int(self._random() * n)

    def uniform(self, low: float, high: float) -> float:
        """Return a number in [low, high)."""
        return low + (high - low) * self._random()

    def pick(self, items: Sequence[T]) -> T:
        """Return one of `items`, all equally likely."""
        return items[self.below(len(items))]

    def common(self, items: Sequence[T]) -> T:
        """Return one of `items`, the earlier the likelier: language has common and rare words.

        The k first of n items share a chance of (k / n) ** (1 / 3), nearly Zipf's law.
        """
        u = self._random()
        return items[int(u * u * u * len(items))]

    def weighted(self, weights: Sequence[tuple[T, float]]) -> T:
        """Return one of the first members of `weights`, as likely as the second says."""
        rest = self._random() * sum(weight for _, weight in weights)
        for item, weight in weights:
            rest -= weight
            if rest < 0:
                return item
        return weights[-1][0]

    def gauss(self, deviation: float) -> float:
        """Return nearly normal noise of mean 0: a sum of 12 uniform numbers has variance 1."""
        return deviation * (sum(self._random() for _ in range(12)) - 6.0)
