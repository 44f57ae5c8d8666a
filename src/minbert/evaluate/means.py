"""Means over seeds with their intervals, as tables and figures show them."""

from collections.abc import Iterator

import numpy as np

from minbert.evaluate.reading import Of, Scores, mostly_learned
from minbert.evaluate.spread import Spread, steadied
from minbert.evaluate.statistics import Interval, interval
from minbert.spec.protocol import RULES


def over_seeds(scores: Scores) -> dict[Of, Interval]:
    """Return the mean over seeds of every score of a paper; `scores` are all that it has.

    Of one seed, the 95 % interval is that over examples. Of several, it is Student's t interval
    with the variance that rows of the paper which have learnt the task share (`spread.steadied`),
    as in the claims. A row that has not learnt it has its own, as has every gain over single tasks:
    all rows' gains move with the same runs of the reference.
    """
    values = {of: tuple(score.value for score in seeds.values()) for of, seeds in scores.items()}
    own: dict[tuple[str, str], dict[tuple[float, ...], Spread]] = {}
    for of in _comparable(scores):
        variance = float(np.var(values[of], ddof=1))
        # A stage under two names counts once.
        own.setdefault(of[1:], {})[values[of]] = Spread(variance, variance, len(values[of]) - 1)
    shared = {of: steadied(rows) for of, rows in own.items()}
    found = {}
    for of, seeds in scores.items():
        used = shared.get(of[1:], {}).get(values[of])
        error = next(iter(seeds.values())).error
        found[of] = interval(values[of], error, (used.whole, used.freedom) if used else None)
    return found


def _comparable(scores: Scores) -> Iterator[Of]:
    """Yield the scores of several seeds from rows that have learnt the task.

    For an overall score: at least one task.
    """
    learned = {of for of, seeds in scores.items() if mostly_learned(seeds.values())}
    rows = {of[:2] for of in learned}
    for of, seeds in scores.items():
        has_learned = of in learned or (of.measure in RULES and of[:2] in rows)
        if len(seeds) > 1 and has_learned:
            yield of
