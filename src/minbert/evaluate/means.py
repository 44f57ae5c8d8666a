"""Means over seeds with their intervals, as tables and figures show them."""

from collections.abc import Sequence

import numpy as np

from minbert.evaluate.reading import Of, Scores, Trained, with_spread
from minbert.evaluate.spread import Spread, steadied_rows
from minbert.evaluate.statistics import Interval, interval
from minbert.spec.protocol import OVERALL_TASKS


def over_seeds(scores: Scores, overall_tasks: Sequence[str] = OVERALL_TASKS) -> dict[Of, Interval]:
    """Return the mean over seeds of every score of a paper; `scores` are all that it has.

    Of one seed, the 95 % interval is that over examples. Of several, it is Student's t interval
    with the variance that rows of the paper which have learned the task share
    (`spread.pool_variances`), as in the claims. A row that has not learned it has its own, as has
    every gain over single tasks: all rows' gains move with the same runs of the reference.
    """
    values = {of: tuple(score.value for score in seeds.values()) for of, seeds in scores.items()}
    own: dict[tuple[str, str], dict[Trained, Spread]] = {}
    for row in with_spread(scores, overall_tasks):
        variance = float(np.var(values[row.of], ddof=1))
        spread = Spread(variance, variance, len(values[row.of]) - 1)
        own.setdefault(row.of[1:], {})[row] = spread
    used = {of: spread for rows in own.values() for of, spread in steadied_rows(rows).items()}
    found = {}
    for of, seeds in scores.items():
        error = next(iter(seeds.values())).error
        shared = (used[of].whole, used[of].freedom) if of in used else None
        found[of] = interval(values[of], error, shared)
    return found
