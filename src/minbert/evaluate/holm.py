"""Many tests at once: how small a p-value must be when there are several."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p: Sequence[float]) -> list[float]:
    """Return the p-values adjusted by Holm's step-down procedure (Holm 1979), in their order.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none may fall below the one
    before it or rise above 1. Those at or below .05 can all be believed with a chance of at most
    5 % that any of them is a false alarm, whatever the tests have to do with each other.
    """
    adjusted = [0.0] * len(p)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, (len(p) - rank) * p[i])
        adjusted[i] = min(1.0, largest)
    return adjusted
