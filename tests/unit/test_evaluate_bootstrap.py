"""Differences, their standard errors and what follows from them, against theory and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from nulls import CLAIMS, Rows, systems, tails
from nulls.__main__ import SPREADS
from scipy.stats import t

from minbert.evaluate.bootstrap import Estimate, System, difference, resampled
from minbert.evaluate.reading import LEVEL


@pytest.mark.parametrize(("seeds", "spread"), [(1, "-"), (2, "0.5 and 3"), (3, "1, fails .2")])
def test_small_p_values_are_as_rare_as_they_say(seeds: int, spread: str) -> None:
    """Of 100 papers, whose own claims go together: docs/statistics.md has 1,500."""
    found = tails(100, seeds, SPREADS[spread])
    assert 0.02 <= found.one <= 0.07 and found.family <= 0.15
    assert found.first <= 5 * LEVEL / CLAIMS


def test_one_seed_is_the_plain_paired_bootstrap() -> None:
    right = systems(1, 1, Rows([0, 0]), np.random.default_rng(4))[0][:, 0, :, 0].T
    scores = resampled("sst", right, np.ones(right.shape[1]), 500)
    one, other = (System(scores[:, [side]]) for side in (0, 1))
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
    needed = found.seeds_needed(0.05, 3, LEVEL)
    assert needed is not None and needed > 3
    halves = [t.ppf(0.975, 2 * n - 2) * np.sqrt(0.0012 / n + 0.0001) for n in (needed - 1, needed)]
    assert halves[0] > 0.05 >= halves[1]
    assert found.seeds_needed(0.5, 3, LEVEL) == 4  # three were not enough, or nobody would ask
    assert found.seeds_needed(0.015, 3, LEVEL) is None  # 1.96 standard errors of the examples alone
    detectable = Estimate(0.0, 0.02, np.inf).detectable(LEVEL)
    assert detectable == pytest.approx((1.960 + 0.842) * 0.02, rel=1e-3)
