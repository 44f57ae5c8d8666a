"""Metrics, intervals, errors over examples, gains and floors, against other formulas for them."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binomtest, pearsonr

from minbert.evaluate.bootstrap import overall_error, resampled_scores, standard_error
from minbert.evaluate.floors import against_floor
from minbert.evaluate.metrics import delta_m, rmse, task_metrics
from minbert.evaluate.scoring import macro_f1, spearman
from minbert.evaluate.statistics import Interval, interval


def test_macro_f1_is_over_the_classes_that_occur() -> None:
    prediction, label = [0, 0, 4, 4, 1], [0, 1, 4, 4, 4]
    assert macro_f1(prediction, label) == pytest.approx((2 / 3 + 0 + 4 / 5) / 3)
    assert macro_f1([3, 3], [3, 3]) == 1.0


def test_spearman_agrees_with_scipy_with_ties() -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(0, 6, 100)
    y = x + generator.integers(0, 4, 100)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert spearman([1, 1, 1], [1, 2, 3]) == 0.0
    assert spearman([1, float("nan"), 1], [1, 2, 3]) == 0.0


def test_rmse_golden() -> None:
    assert rmse([1.0, 2.0, 5.0], [1.0, 4.0, 4.0]) == pytest.approx(np.sqrt(5 / 3))


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        ("sst", ["accuracy", "macro_f1"]),
        ("lmrd", ["accuracy", "macro_f1"]),
        ("para", ["accuracy", "f1"]),
        ("sts", ["pearson", "spearman", "rmse"]),
    ],
)
def test_a_task_has_its_own_metric_first(task: str, metrics: list[str]) -> None:
    assert list(task_metrics(task, [0, 1, 1], [0, 1, 0])) == metrics


def test_interval_agrees_with_scipy() -> None:
    values = [0.51, 0.53, 0.50, 0.55]
    mean, low, high, n, sd, *_ = interval(values)
    reference = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mean, low, high, n) == pytest.approx((0.5225, reference.low, reference.high, 4))
    assert sd == pytest.approx(stats.tstd(values))


def test_interval_of_one_seed_is_open_and_of_none_refused() -> None:
    assert interval([0.5]) == Interval(0.5, None, None, 1)
    assert interval([0.5, 0.5]) == Interval(0.5, 0.5, 0.5, 2, 0.0)
    with pytest.raises(ValueError, match="at least one"):
        interval([])
    with pytest.raises(ValueError, match="finite"):
        interval([0.5, float("nan")])


SINGLE = {"sst": 0.5, "para": 0.8, "sts": 0.9}


def test_golden() -> None:
    # By hand: (0.05 / 0.5 + 0.04 / 0.8 - 0.09 / 0.9) / 3 = 0.05 / 3
    scores = {"sst": 0.55, "para": 0.84, "sts": 0.81, "cfimdb": 0.1}
    assert delta_m(scores, SINGLE | {"lmrd": 0.9}) == pytest.approx(5 / 3)
    assert delta_m(SINGLE, SINGLE) == 0


def test_a_negative_score_is_a_loss_of_more_than_all() -> None:
    assert delta_m(SINGLE | {"sts": -0.9}, SINGLE) == pytest.approx(-200 / 3)


@pytest.mark.parametrize("r", [0.0, -0.2])
def test_nothing_is_a_share_of_0_or_less(r: float) -> None:
    assert delta_m(SINGLE, SINGLE | {"sts": r}) is None


def test_all_tasks_are_needed_on_both_sides() -> None:
    two = {"sst": 0.5, "para": 0.8}
    assert delta_m(two, SINGLE) is None
    assert delta_m(SINGLE, two) is None


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
