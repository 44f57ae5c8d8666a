"""The variance over seeds: of one row, and steadied by the other rows of its paper."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from minbert.evaluate.bootstrap import Sample, difference
from minbert.evaluate.statistics import Spread, alike, own_spread, steadied


def rows(scores: dict[str, list[float]]) -> dict[str, Sample]:
    """Return rows with these scores by seed, known without error from the examples."""
    values = {row: np.array(of) for row, of in scores.items()}
    return {row: Sample(of, np.tile(of, (50, 1))) for row, of in values.items()}


SCORES = {"a": [0.50, 0.52, 0.54], "b": [0.60, 0.61, 0.62], "c": [0.70, 0.73], "d": [0.8]}


def spreads(scores: dict[str, list[float]]) -> dict[str, Spread]:
    own = {row: own_spread(of.values, of.draws) for row, of in rows(scores).items()}
    known = {row: spread for row, spread in own.items() if spread}
    pool = alike(known.values())
    return {row: steadied(spread, pool) for row, spread in known.items()}


def test_a_row_has_the_mean_variance_or_its_own_if_that_is_larger() -> None:
    found = spreads(SCORES)
    mean = (2 * 0.0004 + 2 * 0.0001 + 1 * 0.00045) / 5
    assert found["b"] == Spread(pytest.approx(mean), pytest.approx(mean), 5)
    assert found["a"] == Spread(pytest.approx(0.0004), pytest.approx(0.0004), 5)
    assert found["c"].whole == pytest.approx(0.00045) and "d" not in found


def test_a_difference_is_the_t_test_with_the_pooled_variance() -> None:
    scores = {"a": [0.50, 0.52], "b": [0.60, 0.62], "c": [0.70, 0.66], "d": [0.81, 0.85]}
    used, samples = spreads(scores), rows(scores)
    one, other = (samples[row]._replace(spread=used[row]) for row in "ba")
    found = difference(one, other)
    mean = np.mean([0.0002, 0.0002, 0.0008, 0.0008])
    half = t.ppf(0.975, 4) * np.sqrt(mean * (1 / 2 + 1 / 2))
    assert found.interval() == (pytest.approx(0.10 - half), pytest.approx(0.10 + half))
    alone = difference(samples["b"], samples["a"])
    assert alone.freedom < 2 < found.freedom == 4


def test_what_comes_from_the_examples_is_no_spread_of_seeds() -> None:
    draw = np.random.default_rng(0)
    values, noise = np.array([0.5, 0.5, 0.5]), 0.02 * draw.normal(size=(4000, 3))
    found = own_spread(values, values + noise)
    assert found is not None and found.whole == 0
    assert found.variance == pytest.approx(-(0.02**2), rel=0.1)
    assert (
        difference(Sample(values, values + noise), Sample(values, values + 0 * noise)).of_seeds == 0
    )
    assert own_spread(values[:1], noise[:, :1]) is None


def test_rows_that_vary_far_more_are_no_part_of_the_mean() -> None:
    alike = {f"row {n}": [0.5, 0.5 + 0.01 * (1 + n % 3)] for n in range(9)}
    failing = {"worse": [0.8, 0.3], "bad": [0.6, 0.4]}
    found, without = spreads(alike | failing), spreads(alike)
    assert {row: found[row] for row in alike} == without
    assert found["bad"].freedom == found["worse"].freedom == 1
    assert found["bad"].whole == pytest.approx(0.02) and without["row 0"].freedom == 9
    assert spreads({"a": [0.5, 0.5], "b": [0.5, 0.5], "c": [0.4, 0.5]})["a"].whole == 0
