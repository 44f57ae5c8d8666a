"""How often systems that are equally good are called different, and how often intervals are right.

`cd tests && python -m nulls` draws papers of such systems, for several numbers of seeds and several
spreads between seeds, and one in which trainings fail. It counts how often the claims' p-values are
as small as they say: the level of one test, that of the first of 23 tests by Holm, and the share of
papers with 23 claims that have at least one false alarm. Of the tables' intervals it counts how
often they contain the true mean. Some minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minbert.evaluate.bootstrap import System, difference, resampled
from minbert.evaluate.claims import decision, holm, tail
from minbert.evaluate.reading import LEVEL, Of, Score, Scores
from minbert.evaluate.seeds import over_seeds, rows_of, shared_spreads

ROWS, CLAIMS = 12, 23
"""Rows and claims of one paper; the four have 7 to 13 and 14 to 28."""

EXAMPLES = 1000
RESAMPLES = 500

ACCURACY, FLOOR = 0.75, 0.5
"""The true accuracy of each system, and that of a training that failed."""

ALIKE = 0.6
"""How much of an example's difficulty all systems share: their errors come in pairs."""


class Rows(NamedTuple):
    """The rows of a paper.

    The deviation of each row's accuracies over seeds, and that of an effect of the seed on all rows
    alike, are in standard errors of an accuracy on the examples drawn. Each training fails with the
    probability `fails`.
    """

    ratios: Sequence[float]
    of_seed: float = 0.0
    fails: float = 0.0


class Tails(NamedTuple):
    """Shares of p-values at most .05 and .05 / 23, and of papers with a false alarm."""

    one: float
    first: float
    family: float
    papers: int


def systems(
    papers: int, seeds: int, rows: Rows, draw: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return which examples are right [EXAMPLES, papers, rows, seeds], and which trainings failed.

    The systems are equally good on average. One seed stands for itself alone: the test is of two
    trained models, which are equally good then.
    """
    error = np.sqrt(ACCURACY * (1 - ACCURACY) / EXAMPLES)
    shape = papers, len(rows.ratios), seeds
    deviations = np.array(rows.ratios)[:, None] * draw.standard_normal(shape)
    deviations += rows.of_seed * draw.standard_normal((papers, 1, seeds))
    failed = draw.random(shape) < rows.fails
    accuracy = np.where(failed, FLOOR, ACCURACY + error * (seeds > 1) * deviations)
    # A normal difficulty, in part that of the example: right where it is below a quantile.
    shared = draw.standard_normal((EXAMPLES, papers, 1, 1))
    own = draw.standard_normal((EXAMPLES, *shape))
    difficulty = np.sqrt(ALIKE) * shared + np.sqrt(1 - ALIKE) * own
    return (difficulty < quantile(accuracy)).astype(float), failed


def quantile(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard normal quantiles."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(probability, 1e-6, 1 - 1e-6)))


def scored(values: NDArray[np.float64], failed: NDArray[np.bool_]) -> Scores:
    """Return the scores of rows [rows, seeds]; those that failed are not above their floor."""
    return {
        Of(f"{row}", "dev", "sst"): {
            seed: Score(value, f"{row}", None, FLOOR, float(bad))
            for seed, (value, bad) in enumerate(zip(of, which, strict=True))
        }
        for row, (of, which) in enumerate(zip(values.tolist(), failed.tolist(), strict=True))
    }


def compared(scores: NDArray[np.float64], failed: NDArray[np.bool_]) -> dict[int, System]:
    """Return the rows [1 + b, rows, seeds] that claims compare, with the spread that they share."""
    known, systems = rows_of(scored(scores[0], failed), ()), dict[Of, System]()
    for of, row in known.items():
        kept = [seed for seed in row.runs if seed not in row.failed]
        systems[of] = System(scores[:, int(of.variant), kept], kept)
    drawn = {of: dict(zip(one.seeds, one.scores.T, strict=True)) for of, one in systems.items()}
    spreads = shared_spreads(known, drawn, paired=True)
    return {int(of.variant): systems[of]._replace(paired=one) for of, one in spreads.items()}


def p_values(
    papers: int, seeds: int, rows: Rows, draw: np.random.Generator
) -> Iterator[list[float]]:
    """Yield for each paper the two-sided p-values of `CLAIMS` claims that a row scores higher.

    A claim about a row most of whose trainings failed has none, but counts for Holm's procedure.
    """
    right, failed = systems(papers, seeds, rows, draw)
    columns, shape = right.reshape(EXAMPLES, -1).T, right.shape[1:]
    scores = resampled("sst", columns, np.ones(EXAMPLES), RESAMPLES).reshape(-1, *shape)
    pairs = [(one, other) for other in range(len(rows.ratios)) for one in range(other)]
    for paper in range(papers):
        of = compared(scores[:, paper], failed[paper])
        if seeds == 1:
            of = {row: System(scores[:, paper, row], [0]) for row in range(len(rows.ratios))}
        asked = (pairs[pair] for pair in draw.permutation(len(pairs))[:CLAIMS])
        judged = ((of[a], of[b]) for a, b in asked if a in of and b in of)
        estimates = (difference(*sides, 1 / EXAMPLES) for sides in judged)
        yield [decision([tail(estimate, "higher", 0.0)])[0] for estimate in estimates]


def _draw(seed: int, seeds: int, rows: Rows) -> np.random.Generator:
    numbers = (*rows.ratios, rows.of_seed, rows.fails)
    return np.random.default_rng([seed, seeds, *(round(100 * number) for number in numbers)])


def tails(papers: int, seeds: int, rows: Rows, seed: int = 0) -> Tails:
    """Return how often equally good systems are called different."""
    draw = _draw(seed, seeds, rows)
    at_once, found = 10, list[list[float]]()
    while len(found) < papers:
        found += p_values(at_once, seeds, rows, draw)
    p = np.concatenate(found)
    alarms = [any(p <= LEVEL for p, _ in holm(family, CLAIMS)) for family in found]
    first = float(np.mean(p <= LEVEL / CLAIMS))
    return Tails(float(np.mean(p <= LEVEL)), first, float(np.mean(alarms)), len(found))


class Covered(NamedTuple):
    """Shares of rows whose interval contains the true mean: of all rows, and of the worst one."""

    all: float
    worst: float


def coverage(papers: int, seeds: int, rows: Rows, seed: int = 0) -> Covered:
    """Return how often the intervals over seeds contain the true mean.

    The spread is that of `systems`, with the part that comes from the examples.
    """
    draw = _draw(seed, seeds, rows)
    shape = papers, len(rows.ratios), seeds
    deviations = np.sqrt(1 + np.square(rows.ratios) + rows.of_seed**2)[:, None]
    contained = np.zeros(len(rows.ratios))
    for values in 100 + deviations * draw.standard_normal(shape):
        found = over_seeds(scored(values, np.zeros(shape[1:], bool))).values()
        for row, one in enumerate(found):
            assert one.low is not None and one.high is not None
            contained[row] += one.low <= 100 <= one.high
    return Covered(float(contained.mean()) / papers, float(contained.min()) / papers)
