"""Bootstrap standard errors and intervals, against theory, simulation and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from nulls import CLAIMS, tails
from nulls.__main__ import SPREADS
from numpy.typing import NDArray
from scipy.stats import t

from minbert.evaluate.bootstrap import Estimate, System, difference, resampled
from minbert.evaluate.statistics import LEVEL

Floats = NDArray[np.float64]


def systems(
    draw: np.random.Generator, n: int, seeds: int, seed_spread: float = 0.0, own: float = 0.7
) -> Floats:
    """Return right or wrong [n, 2 * seeds] of two equally good systems.

    They share how hard an example is; `own` is the noise of each run on each example, and
    `seed_spread` how far whole runs differ.
    """
    hard = draw.normal(size=(n, 1))
    runs = draw.normal(size=(1, 2 * seeds)) * seed_spread
    return (hard + own * draw.normal(size=(n, 2 * seeds)) + runs > -0.3).astype(float)


def compare(right: Floats, resamples: int = 300) -> Estimate:
    """Return the difference of two systems that have half of the columns each."""
    scores = resampled("sst", right.T, np.ones(len(right)), resamples)
    return difference(*map(System, np.split(scores, 2, axis=1)))


@pytest.mark.parametrize(("seeds", "seed_spread"), [(1, 0.0), (3, 0.2)])
def test_intervals_cover_as_often_as_they_say(seeds: int, seed_spread: float) -> None:
    draw = np.random.default_rng(7)
    trials = 160
    found = [compare(systems(draw, 300, seeds, seed_spread), 150) for _ in range(trials)]
    intervals = [each.interval() for each in found]
    covered = sum(low <= 0 <= high for low, high in intervals) / trials
    assert covered >= 0.90  # three standard errors of 160 trials below .95


@pytest.mark.parametrize(("seeds", "spread"), [(1, "-"), (2, "0.5 and 3")])
def test_small_p_values_are_as_rare_as_they_say(seeds: int, spread: str) -> None:
    """Of 100 papers, whose own claims go together: docs/statistics.md has 2,000."""
    found = tails(100, seeds, SPREADS[spread])
    assert 0.02 <= found.one <= 0.07 and found.family <= 0.15
    assert found.first <= 5 * LEVEL / CLAIMS


def test_one_seed_is_the_plain_paired_bootstrap() -> None:
    right = systems(np.random.default_rng(4), 500, 1, own=0.3)
    one, other = (System(resampled("sst", right.T[[i]], np.ones(500), 500)) for i in (0, 1))
    found = difference(one, other)
    plain = (one.scores - other.scores)[1:].std(ddof=1)
    assert found.error == pytest.approx(plain, rel=1e-12)
    low, high = found.interval()
    assert high - found.value == pytest.approx(1.959964 * plain) == found.value - low
    same = difference(one, one)
    assert (same.value, same.error, *same.interval()) == (0, 0, 0, 0)


def test_what_can_be_detected_and_how_many_seeds_a_distance_needs() -> None:
    # Of the error's variance, .0001 are of the examples and .0012 / 3 of the spread of three seeds.
    found = Estimate(0.05, np.sqrt(0.0005), 4.0, 0.0001, 0.0012)
    needed = found.seeds_needed(0.05, 3)
    assert needed is not None and needed > 3
    halves = [t.ppf(0.975, 2 * n - 2) * np.sqrt(0.0012 / n + 0.0001) for n in (needed - 1, needed)]
    assert halves[0] > 0.05 >= halves[1]
    assert Estimate(0.0, 0.02, np.inf).detectable() == pytest.approx(
        (1.960 + 0.842) * 0.02, rel=1e-3
    )
    assert found.seeds_needed(0.5, 3) == 4  # three were not enough, or nobody would ask
    assert found.seeds_needed(0.015, 3) is None  # 1.96 standard errors of the examples alone
