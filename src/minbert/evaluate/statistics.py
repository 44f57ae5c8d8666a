"""Means over seeds, their confidence intervals, and how far scores move with the seed.

A variance over two or three seeds says little, so that a t distribution with one or two degrees of
freedom decides almost nothing. Rows of one paper are trained in similar ways, and scored on the
same examples. So the mean of their variances, with the degrees of freedom of all, serves for each
of them: the pooled variance of an analysis of variance, and of laboratories that measure alike (ISO
5725-2). As there, a row whose variance is an outlier by Cochran's test is not one of them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc, stdtrit

from minbert.evaluate.scoring import Floats

LEVEL = 0.05
"""Of all tests."""

NORMAL = float(stdtrit(np.inf, 1 - LEVEL / 2))
"""Standard errors on each side of a 95 % interval with infinitely many degrees of freedom."""


class Interval(NamedTuple):
    """A mean over `n` values; `low` and `high` bound its interval (None if unknown).

    `sd` is the values' own standard deviation, with n - 1 degrees of freedom; None of a single one.
    Of scores (`seeds.over_seeds`), `last` is the mean after the last epoch, `floor` that of the
    score, `above` how many seeds are above it at the 5 % level and `constant` how many predict one
    class or number; `learned` whether the row has learned. These are None where unknown.
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
    none, or that of its standard `error` over examples, if that is given.
    """
    n, mean, sd, freedom = len(values), float(np.mean(values)), None, np.inf
    if n > 1:
        sd = float(np.std(values, ddof=1))
        variance, freedom = shared or (sd**2, n - 1)
        error = np.sqrt(variance / n)
    if error is None:
        return Interval(mean)
    half = float(stdtrit(freedom, 1 - LEVEL / 2) * error)
    return Interval(mean, mean - half, mean + half, n, sd)


OUTLIER = 0.01
"""The level of Cochran's test; ISO 5725-2 calls what fails it an outlier."""


class Spread(NamedTuple):
    """The variance of scores over seeds, and its degrees of freedom.

    `whole` is that of the scores, `variance` that of infinitely many examples.
    """

    variance: float
    whole: float
    freedom: int


def own_spread(scores: Floats) -> Spread | None:
    """Return the spread of one row's `scores` [1 + b, s] (`bootstrap.System`); None of one seed.

    The part that comes from erring on other examples is subtracted, as the examples' draws have it
    already (Davison & Hinkley 1997, section 3.8). What is left is negative where the spread is
    within that part.
    """
    freedom = scores.shape[1] - 1
    if freedom == 0:
        return None
    about_mean = scores[1:] - scores[1:].mean(axis=1, keepdims=True)
    of_examples = float(about_mean.var(axis=0, ddof=1).sum()) / freedom
    whole = float(scores[0].var(ddof=1))
    return Spread(whole - of_examples, whole, freedom)


def alike(rows: Iterable[Spread]) -> list[Spread]:
    """Return the spreads of `rows` without the outliers, the smallest first."""
    found = sorted(rows, key=lambda row: row.whole)
    while len(found) > 1 and _is_outlier(found[-1], found[:-1]):
        found.pop()
    return found


def steadied(own: Spread, rows: Sequence[Spread]) -> Spread:
    """Return the spread to be used for a row, from its `own` and those of `rows` that are `alike`.

    That is their mean, weighted by their degrees of freedom, or the row's own where that is larger,
    so that rows which vary more than the others raise few false alarms (`tests/nulls`). An outlier
    has its own, with its own degrees of freedom.
    """
    if not rows or _is_outlier(own, rows):
        return own
    mean = _mean(rows)
    return max(mean, own._replace(freedom=mean.freedom), key=lambda spread: spread.whole)


def _is_outlier(one: Spread, others: Sequence[Spread]) -> bool:
    """Whether `one` is too large by Cochran's test, for any numbers of seeds ('t Lam 2010)."""
    rest = _mean(others)
    if rest.whole == 0:
        return one.whole > 0
    chance = float(fdtrc(one.freedom, rest.freedom, one.whole / rest.whole))
    return chance * (1 + len(others)) <= OUTLIER


def _mean(spreads: Iterable[Spread]) -> Spread:
    variances, wholes, freedoms = zip(*spreads, strict=True)
    variance, whole = (float(np.average(of, weights=freedoms)) for of in (variances, wholes))
    return Spread(variance, whole, sum(freedoms))
