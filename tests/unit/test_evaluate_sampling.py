"""Standard errors over examples: equal to the bootstrap's."""

from __future__ import annotations

import numpy as np
import pytest

from minbert.evaluate.bootstrap import overall_error, resampled_scores, standard_error
from minbert.evaluate.statistics import NORMAL, interval


@pytest.mark.parametrize("task", ["sst", "sts"])
@pytest.mark.parametrize("skill", [0.1, 0.6, 0.95])
def test_the_standard_error_is_the_bootstraps(task: str, skill: float) -> None:
    draw = np.random.default_rng(3)
    labels = draw.integers(0, 5, 600).astype(float)
    if task == "sst":
        predicted = np.where(draw.random(600) < skill, labels, (labels + 1) % 5)
    else:
        predicted = skill * labels + np.sqrt(1 - skill**2) * draw.standard_t(4, 600)
    draws = resampled_scores(task, predicted[:, None], labels, 4000)
    assert standard_error(task, predicted, labels) == pytest.approx(draws.std(), rel=0.06)


def test_an_r_of_constant_predictions_has_none() -> None:
    labels = np.array([0.0, 1.0, 2.0, 2.0])
    assert standard_error("sts", np.ones(4), labels) is None
    assert standard_error("sst", np.full(4, 2.0), labels) == pytest.approx(0.25)


def test_the_overall_error_adds_variances() -> None:
    errors = {"sst": 0.03, "para": 0.02, "sts": 0.04}
    assert overall_error(errors, "plain") == pytest.approx(np.linalg.norm([0.03, 0.02, 0.04]) / 3)
    halved = np.linalg.norm([0.03, 0.02, 0.02]) / 3
    assert overall_error(errors, "normalised") == pytest.approx(halved)
    assert overall_error({"sst": 0.03}, "plain") is None
    assert overall_error({**errors, "sts": None}, "plain") is None


def test_one_seed_has_the_interval_of_its_examples() -> None:
    assert interval([0.5]).low is None
    one = interval([0.5], 0.01)
    assert (one.low, one.high) == (
        pytest.approx(0.5 - NORMAL / 100),
        pytest.approx(0.5196, abs=1e-4),
    )
    assert interval([0.5, 0.6], 0.01) == interval([0.5, 0.6])
