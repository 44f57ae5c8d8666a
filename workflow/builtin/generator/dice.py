"""Random choices that are the same on any machine and Python version.

Python guarantees for a seed only that `random.Random.random` never changes, so all choices are
built on it, with no operation that a C library may round differently.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A random stream named by its seeds: the same names give the same stream."""

    def __init__(self, *seeds: object) -> None:
        self.uniform = random.Random(":".join(map(str, seeds))).random  # a number in [0, 1)

    def chance(self, probability: float) -> bool:
        """Return True with `probability`."""
        return self.uniform() < probability

    def below(self, n: int) -> int:
        """Return a whole number in [0, n), all equally likely."""
        return int(self.uniform() * n)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of `items`, all equally likely."""
        return items[self.below(len(items))]

    def common(self, items: Sequence[T]) -> T:
        """Return one of `items`, earlier ones more often, as language has common and rare words.

        The first k of n items share a probability of (k / n) ** (1 / 3), close to Zipf's law.
        """
        u = self.uniform()
        return items[int(u * u * u * len(items))]

    def weighted(self, weights: Sequence[tuple[T, float]]) -> T:
        """Return an item of the (item, weight) pairs, with a probability proportional to weight."""
        rest = self.uniform() * sum(weight for _, weight in weights)
        for item, weight in weights:
            rest -= weight
            if rest < 0:
                return item
        return weights[-1][0]

    def gauss(self, deviation: float) -> float:
        """Return nearly normal noise of mean 0; a sum of 12 uniform numbers has variance 1."""
        return deviation * (sum(self.uniform() for _ in range(12)) - 6.0)
