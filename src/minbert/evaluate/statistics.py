"""Means over seeds and their confidence intervals."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

LEVEL = 0.05
"""Of all tests."""


NORMAL = float(ndtri(1 - LEVEL / 2))
"""Standard errors on each side of a 95 % interval with infinitely many degrees of freedom."""


class Interval(NamedTuple):
    """A mean over `n` values; `low` and `high` bound its interval (None if unknown).

    `sd` is the values' own standard deviation, with n - 1 degrees of freedom; None of a single one.
    Of scores (`seeds.over_seeds`), `last` is the mean after the last epoch, `floor` what takes no
    learning, `above` how many seeds are above that at the 5 % level and `constant` how many predict
    one class or number; `learned` whether the row has learnt. These are None where unknown.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    n: int = 1
    sd: float | None = None
    last: float | None = None
    floor: float | None = None
    above: int | None = None
    constant: int | None = None
    learned: bool | None = None

    def in_words(self, digits: int = 3, sign: str = "") -> str:
        """Return the mean and half the interval's width, if it has one; `sign` "+" is shown too."""
        half = "" if self.high is None else f" ± {self.high - self.mean:.{digits}f}"
        return f"{self.mean:{sign}.{digits}f}{half}"


def interval(
    values: Sequence[float],
    error: float | None = None,
    shared: tuple[float, int] | None = None,
) -> Interval:
    """Return the mean of `values` and its 95 % Student-t interval.

    mean +- t(n - 1) * s / sqrt(n), with s the standard deviation with n - 1 degrees of freedom
    (Student, 1908), or with the variance and degrees of freedom in `shared`. A single value has
    none, or that of its standard `error` over examples, if that is given. Raises ValueError if
    there is no value or one is not finite.
    """
    sample = np.asarray(values, dtype=np.float64)
    n = len(sample)
    if n == 0 or not np.isfinite(sample).all():
        raise ValueError(f"an interval needs finite values, at least one; found {list(values)}")
    mean = float(sample.mean())
    if n == 1:
        if error is None:
            return Interval(mean, None, None, 1)
        return Interval(mean, mean - NORMAL * error, mean + NORMAL * error, 1)
    variance, freedom = shared or (float(sample.var(ddof=1)), n - 1)
    half = float(stdtrit(freedom, 1 - LEVEL / 2) * np.sqrt(variance / n))
    return Interval(mean, mean - half, mean + half, n, float(sample.std(ddof=1)))
