"""Whether a run is above what it takes no learning to reach."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, pearsonr

from minbert.evaluate.floors import against_floor


def test_accuracy_is_held_against_the_most_frequent_label_on_the_same_examples() -> None:
    label = np.repeat([1.0, 0.0], [60, 40])
    prediction = label.copy()
    prediction[:10] = 0  # 10 of the frequent class lost,
    prediction[60:70] = 1  # 30 of the other won
    found = against_floor("para", prediction, label)
    assert (found.score, found.floor, found.constant) == (0.8, 0.6, False)
    assert found.p == pytest.approx(binomtest(30, 40, alternative="greater").pvalue)
    assert found.above


def test_a_constant_predictor_is_never_above() -> None:
    label = np.repeat([0.0, 1.0, 3.0], [3, 5, 2])
    always = against_floor("sst", np.ones(10), label)
    assert always == (0.5, 0.5, 1.0, True) and not always.above
    flat = against_floor("sts", np.full(10, 2.5), np.arange(10.0) / 2)
    assert flat == (0.0, 0.0, 1.0, True)


def test_r_is_held_against_zero() -> None:
    draw = np.random.default_rng(0)
    label = draw.uniform(0, 5, 40)
    for noise in (0.1, 5.0, 50.0):
        prediction = label + draw.normal(0, noise, 40)
        found = against_floor("sts", prediction, label)
        test = pearsonr(prediction, label, alternative="greater")
        assert found.score == pytest.approx(test.statistic)
        if test.statistic > 0:
            assert found.p == pytest.approx(test.pvalue)
    assert not against_floor("sts", -label, label).above
    assert against_floor("sts", label, label).above
    assert not against_floor("sts", [1.0, 2.0], [1.0, 2.0]).above  # two points: no test
