"""Metrics, intervals, errors over examples, gains and floors, against other formulas for them."""

import numpy as np
import pytest
from scipy import stats

from minbert.evaluate.bootstrap import overall_error, resampled, standard_error
from minbert.evaluate.floors import against_floor
from minbert.evaluate.score import delta_m
from minbert.evaluate.scoring import macro_f1, rmse, spearman
from minbert.evaluate.statistics import Interval, interval
from minbert.spec.protocol import OVERALL_TASKS


def test_metrics_by_hand_and_by_scipy() -> None:
    assert macro_f1([0, 0, 4, 4, 1], [0, 1, 4, 4, 4]) == pytest.approx((2 / 3 + 0 + 4 / 5) / 3)
    generator = np.random.default_rng(1)
    x = generator.integers(0, 6, 100)
    y = x + generator.integers(0, 4, 100)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert spearman([1, float("nan"), 1], [1, 2, 3]) == spearman([1, 1, 1], [1, 2, 3]) == 0.0
    assert rmse([1.0, 2.0, 5.0], [1.0, 4.0, 4.0]) == pytest.approx(np.sqrt(5 / 3))


def test_interval_agrees_with_scipy() -> None:
    values = [0.51, 0.53, 0.50, 0.55]
    mean, low, high, n, sd, *_ = interval(values)
    reference = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mean, low, high, n) == pytest.approx((0.5225, reference.low, reference.high, 4))
    assert sd == pytest.approx(stats.tstd(values))
    assert interval([0.5]) == Interval(0.5, None, None, 1)


SINGLE = {"sst": 0.5, "para": 0.8, "sts": 0.9}


@pytest.mark.parametrize(
    ("scores", "single", "expected"),
    [
        # By hand: (0.05 / 0.5 + 0.04 / 0.8 - 0.09 / 0.9) / 3 = 0.05 / 3
        ({"sst": 0.55, "para": 0.84, "sts": 0.81, "cfimdb": 0.1}, SINGLE | {"lmrd": 0.9}, 5 / 3),
        (SINGLE | {"sts": -0.9}, SINGLE, -200 / 3),
        (SINGLE, SINGLE | {"sts": -0.2}, None),
        ({"sst": 0.5, "para": 0.8}, SINGLE, None),
    ],
)
def test_the_gain_over_single_tasks(
    scores: dict[str, float], single: dict[str, float], expected: float | None
) -> None:
    assert delta_m(scores, single, OVERALL_TASKS) == (expected and pytest.approx(expected))


@pytest.mark.parametrize("task", ["sst", "sts"])
@pytest.mark.parametrize("skill", [0.1, 0.95])
def test_the_standard_error_is_the_bootstraps(task: str, skill: float) -> None:
    draw = np.random.default_rng(3)
    labels = draw.integers(0, 5, 600).astype(float)
    if task == "sst":
        predicted = np.where(draw.random(600) < skill, labels, (labels + 1) % 5)
    else:
        predicted = skill * labels + np.sqrt(1 - skill**2) * draw.standard_t(4, 600)
    draws = resampled(task, predicted[None], labels, 4000)[1:]
    assert standard_error(task, predicted, labels) == pytest.approx(draws.std(), rel=0.06)
    assert (standard_error(task, np.ones(600), labels) is None) == (task == "sts")


def test_the_overall_error_adds_variances() -> None:
    errors = {"sst": 0.03, "para": 0.02, "sts": 0.04}
    assert overall_error(errors, "plain") == pytest.approx(np.linalg.norm([0.03, 0.02, 0.04]) / 3)
    halved = np.linalg.norm([0.03, 0.02, 0.02]) / 3
    assert overall_error(errors, "normalised") == pytest.approx(halved)
    assert overall_error({**errors, "sts": None}, "plain") is None


def test_accuracy_is_held_against_the_most_frequent_label_on_the_same_examples() -> None:
    label = np.repeat([1.0, 0.0], [60, 40])
    prediction = label.copy()
    prediction[:10] = 0  # 10 of the frequent class lost,
    prediction[60:70] = 1  # 30 of the other won
    found = against_floor("para", prediction, label)
    assert (found.value, found.floor, found.constant) == (0.8, 0.6, False)
    assert found.p_floor == pytest.approx(stats.binomtest(30, 40, alternative="greater").pvalue)
    assert found.learned


def test_r_is_held_against_zero() -> None:
    draw = np.random.default_rng(0)
    label = draw.uniform(0, 5, 40)
    prediction = label + draw.normal(0, 5.0, 40)
    found = against_floor("sts", prediction, label)
    test = stats.pearsonr(prediction, label, alternative="greater")
    assert (found.value, found.p_floor) == (
        pytest.approx(test.statistic),
        pytest.approx(test.pvalue),
    )
    assert not against_floor("sts", [1.0, 2.0], [1.0, 2.0]).learned  # two points: no test
    flat = against_floor("sts", np.full(40, 2.5), label)
    assert (flat.value, flat.floor, flat.p_floor, flat.constant) == (0.0, 0.0, 0.5, True)
