"""How far scores move with the seed: variances of few seeds, made steadier by a paper's other rows.

A variance over two or three seeds says little, so that a t distribution with one or two degrees of
freedom decides almost nothing. Rows of one paper are trained in similar ways, and scored on the
same examples. So the mean of their variances, with the degrees of freedom of all, serves for each
of them: the pooled variance of an analysis of variance, and of laboratories that measure alike (ISO
5725-2). As there, a row whose variance is an outlier by Cochran's test is not one of them.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import fdtrc

from minbert.evaluate.counts import Floats

Row = TypeVar("Row", bound=Hashable)

OUTLIER = 0.01
"""The level of Cochran's test; ISO 5725-2 calls what fails it an outlier."""


class Spread(NamedTuple):
    """The variance of scores over seeds, and its degrees of freedom.

    `whole` is that of the scores, `variance` that of infinitely many examples.
    """

    variance: float
    whole: float
    freedom: int


def own_spread(values: Floats, draws: Floats) -> Spread | None:
    """Return the spread of one row's scores `values` [s], with `draws` [b, s]; None of one seed.

    The part that comes from erring on other examples is subtracted, as the examples' draws have it
    already (Davison & Hinkley 1997, section 3.8). What is left is negative where the spread is
    within that part.
    """
    seeds = len(values)
    if seeds == 1:
        return None
    about_mean = draws - draws.mean(axis=1, keepdims=True)
    of_examples = about_mean.var(axis=0, ddof=1).sum() / (seeds - 1)
    whole = float(values.var(ddof=1))
    return Spread(whole - float(of_examples), whole, seeds - 1)


def pool_variances(
    rows: Mapping[Row, Spread], derived: Mapping[Row, Spread] | None = None
) -> dict[Row, Spread]:
    """Return the spread to be used for each row, from the spreads of all of them.

    That is their mean, weighted by their degrees of freedom, or the row's own where that is larger,
    so that rows which vary more than the others raise few false alarms (`tests/nulls`). Outliers,
    from the largest down, have their own, with their own degrees of freedom. So have rows `derived`
    from others where they are outliers; they are no part of the mean.
    """
    every = dict(derived or {}) | dict(rows)
    alike = sorted(rows, key=lambda row: rows[row].whole)
    while len(alike) > 1 and _is_outlier(*(rows[row] for row in reversed(alike))):
        alike.pop()
    if not alike:
        return every
    mean = _mean(rows[row] for row in alike)
    others = (row for row in every if row not in rows)
    like_them = [r for r in others if not _is_outlier(every[r], *(rows[row] for row in alike))]
    return every | {
        row: max(mean, every[row]._replace(freedom=mean.freedom), key=lambda spread: spread.whole)
        for row in [*alike, *like_them]
    }


def _is_outlier(largest: Spread, *others: Spread) -> bool:
    """Whether `largest` is an outlier by Cochran's test, for any numbers of seeds ('t Lam 2010)."""
    rest = _mean(others)
    if rest.whole == 0:
        return largest.whole > 0
    chance = float(fdtrc(largest.freedom, rest.freedom, largest.whole / rest.whole))
    return chance * (1 + len(others)) <= OUTLIER


def _mean(spreads: Iterable[Spread]) -> Spread:
    variances, wholes, freedoms = zip(*spreads, strict=True)
    variance, whole = (float(np.average(of, weights=freedoms)) for of in (variances, wholes))
    return Spread(variance, whole, sum(freedoms))
