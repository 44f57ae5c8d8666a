"""How often systems that are equally good are called different.

`cd tests && python -m nulls --trials 12000` draws them, for several numbers of seeds and several
spreads between seeds, and counts how often the claims' p-values are as small as they say: the
level of one test, that of the first of 23 tests by Holm, and the share of families of 23 claims
with at least one false alarm. Some minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minbert.evaluate.bootstrap import Sample, difference, resampled_scores
from minbert.evaluate.claims import against, decision, holm
from minbert.evaluate.statistics import LEVEL

CLAIMS = 23
"""Claims of one paper; the four make 14 to 28."""

EXAMPLES = 1000
RESAMPLES = 500

ACCURACY = 0.75
"""The true accuracy of each system."""

ALIKE = 0.6
"""How much of an example's difficulty all systems share: their errors come in pairs."""


class Tails(NamedTuple):
    """Shares of p-values at most .05 and .05 / 23, and of families with a false alarm."""

    one: float
    first: float
    family: float
    trials: int


def systems(
    trials: int, seeds: int, ratio: float, draw: np.random.Generator
) -> NDArray[np.float64]:
    """Return which examples are right, [EXAMPLES, trials, 2, seeds].

    The systems are equally good on average. A seed's own accuracy on infinitely many examples has
    `ratio` times the standard error of an accuracy on the examples drawn. One seed stands for
    itself alone: the test is of two trained models, which are equally good then.
    """
    error = np.sqrt(ACCURACY * (1 - ACCURACY) / EXAMPLES)
    deviation = ratio * error if seeds > 1 else 0.0
    accuracy = ACCURACY + deviation * draw.standard_normal((trials, 2, seeds))
    # A normal difficulty, in part that of the example: right where it is below a quantile.
    shared = draw.standard_normal((EXAMPLES, trials, 1, 1))
    own = draw.standard_normal((EXAMPLES, trials, 2, seeds))
    difficulty = np.sqrt(ALIKE) * shared + np.sqrt(1 - ALIKE) * own
    return (difficulty < quantile(accuracy)).astype(float)


def quantile(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard normal quantiles."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(probability, 1e-6, 1 - 1e-6)))


def p_values(trials: int, seeds: int, ratio: float, draw: np.random.Generator) -> Iterator[float]:
    """Yield the two-sided p-value of 'the one scores higher' for each of the trials."""
    right = systems(trials, seeds, ratio, draw)
    columns = right.reshape(EXAMPLES, -1)
    draws = resampled_scores("sst", columns, np.ones(EXAMPLES), RESAMPLES)
    values = columns.mean(0).reshape(trials, 2, seeds)
    draws = draws.reshape(RESAMPLES, trials, 2, seeds)
    for trial in range(trials):
        pair = (Sample(values[trial, side], draws[:, trial, side]) for side in (0, 1))
        estimate = difference(*pair, 1 / EXAMPLES)
        yield decision([against(estimate, "higher", 0.0)])[0]


def tails(trials: int, seeds: int, ratio: float, seed: int = 0) -> Tails:
    """Return how often equally good systems are called different."""
    draw = np.random.default_rng([seed, seeds, round(100 * ratio)])
    at_once = CLAIMS * 10
    found: list[float] = []
    while len(found) < trials:
        found += p_values(at_once, seeds, ratio, draw)
    p = np.array(found)
    families = p[: len(p) // CLAIMS * CLAIMS].reshape(-1, CLAIMS)
    alarms = [min(holm(list(family), CLAIMS)) <= LEVEL for family in families]
    first = float(np.mean(p <= LEVEL / CLAIMS))
    return Tails(float(np.mean(p <= LEVEL)), first, float(np.mean(alarms)), len(p))
