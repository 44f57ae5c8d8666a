"""How often systems that are equally good are called different, and how often intervals are right.

`cd tests && python -m nulls` draws papers of such systems, for several numbers of seeds and several
spreads between seeds, and counts how often the claims' p-values are as small as they say: the
level of one test, that of the first of 23 tests by Holm, and the share of papers with 23 claims
that have at least one false alarm. Of the tables' intervals it counts how often they contain the
true mean. Some minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minbert.evaluate.bootstrap import System, difference, resampled
from minbert.evaluate.claims import decision, holm, tail
from minbert.evaluate.reading import LEVEL, Of, Score
from minbert.evaluate.seeds import alike, over_seeds, own_spread, steadied

ROWS, CLAIMS = 12, 23
"""Rows and claims of one paper; the four have 7 to 13 and 14 to 28."""

EXAMPLES = 1000
RESAMPLES = 500

ACCURACY = 0.75
"""The true accuracy of each system."""

ALIKE = 0.6
"""How much of an example's difficulty all systems share: their errors come in pairs."""


class Tails(NamedTuple):
    """Shares of p-values at most .05 and .05 / 23, and of papers with a false alarm."""

    one: float
    first: float
    family: float
    papers: int


def systems(
    papers: int, seeds: int, ratios: Sequence[float], draw: np.random.Generator
) -> NDArray[np.float64]:
    """Return which examples are right, [EXAMPLES, papers, rows, seeds].

    The systems are equally good on average. A seed's own accuracy on infinitely many examples has
    the row's ratio times the standard error of an accuracy on the examples drawn. One seed stands
    for itself alone: the test is of two trained models, which are equally good then.
    """
    error = np.sqrt(ACCURACY * (1 - ACCURACY) / EXAMPLES)
    deviations = error * np.array(ratios)[:, None] if seeds > 1 else 0.0
    accuracy = ACCURACY + deviations * draw.standard_normal((papers, len(ratios), seeds))
    # A normal difficulty, in part that of the example: right where it is below a quantile.
    shared = draw.standard_normal((EXAMPLES, papers, 1, 1))
    own = draw.standard_normal((EXAMPLES, papers, len(ratios), seeds))
    difficulty = np.sqrt(ALIKE) * shared + np.sqrt(1 - ALIKE) * own
    return (difficulty < quantile(accuracy)).astype(float)


def quantile(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard normal quantiles."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(probability, 1e-6, 1 - 1e-6)))


def p_values(
    papers: int, seeds: int, ratios: Sequence[float], draw: np.random.Generator
) -> Iterator[list[float]]:
    """Yield for each paper the two-sided p-values of `CLAIMS` claims that a row scores higher."""
    right = systems(papers, seeds, ratios, draw)
    columns, shape = right.reshape(EXAMPLES, -1).T, right.shape[1:]
    scores = resampled("sst", columns, np.ones(EXAMPLES), RESAMPLES).reshape(-1, *shape)
    pairs = [(one, other) for other in range(len(ratios)) for one in range(other)]
    for paper in range(papers):
        rows = [System(scores[:, paper, row]) for row in range(len(ratios))]
        if seeds > 1:
            own = [spread for of in rows if (spread := own_spread(of.scores))]
            used = [steadied(spread, alike(own)) for spread in own]
            rows = [of._replace(spread=spread) for of, spread in zip(rows, used, strict=True)]
        found = []
        for pair in draw.permutation(len(pairs))[:CLAIMS]:
            estimate = difference(*(rows[row] for row in pairs[pair]), 1 / EXAMPLES)
            found.append(decision([tail(estimate, "higher", 0.0)])[0])
        yield found


def tails(papers: int, seeds: int, ratios: Sequence[float], seed: int = 0) -> Tails:
    """Return how often equally good systems are called different."""
    draw = np.random.default_rng([seed, seeds, *(round(100 * ratio) for ratio in ratios)])
    at_once, found = 10, list[list[float]]()
    while len(found) < papers:
        found += p_values(at_once, seeds, ratios, draw)
    p = np.array(found)
    alarms = [min(holm(family, CLAIMS))[0] <= LEVEL for family in found]
    first = float(np.mean(p <= LEVEL / CLAIMS))
    return Tails(float(np.mean(p <= LEVEL)), first, float(np.mean(alarms)), len(found))


class Covered(NamedTuple):
    """Shares of rows whose interval contains the true mean: of all rows, and of the worst one."""

    all: float
    worst: float


def coverage(papers: int, seeds: int, ratios: Sequence[float], seed: int = 0) -> Covered:
    """Return how often the intervals over seeds contain the true mean.

    The spread is that of `systems`, with the part that comes from the examples.
    """
    draw = np.random.default_rng([seed, seeds, *(round(100 * ratio) for ratio in ratios)])
    deviations = np.sqrt(1 + np.square(ratios))[:, None]
    contained = np.zeros(len(ratios))
    rows = [Of(f"{row}", "dev", "sst") for row in range(len(ratios))]
    for values in deviations * draw.standard_normal((papers, len(ratios), seeds)):
        scores = {
            of: {n: Score(value, of.variant, None, p_floor=0.0) for n, value in enumerate(by_seed)}
            for of, by_seed in zip(rows, values.tolist(), strict=True)
        }
        for row, found in enumerate(over_seeds(scores).values()):
            assert found.low is not None and found.high is not None
            contained[row] += found.low <= 0 <= found.high
    return Covered(float(contained.mean()) / papers, float(contained.min()) / papers)
