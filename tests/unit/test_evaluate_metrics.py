"""Additional metrics and intervals, against other formulas for the same."""

import numpy as np
import pytest
from scipy import stats

from minbert.evaluate.metrics import rmse, task_metrics
from minbert.evaluate.scoring import f1, macro_f1, spearman
from minbert.evaluate.statistics import Interval, interval


def test_f1_golden() -> None:
    assert f1([1, 1, 0, 0, 1], [1, 0, 1, 0, 1]) == pytest.approx(2 / 3)
    assert f1([0, 0], [0, 0]) == 0.0


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


def test_interval_by_the_tables_of_student() -> None:
    mean, low, high, *_ = interval([1.0, 2.0, 3.0])
    assert low is not None
    assert high is not None
    assert high - mean == pytest.approx(4.303 / np.sqrt(3), abs=1e-3)
    assert mean - low == pytest.approx(high - mean)


def test_interval_of_one_seed_is_open_and_of_none_refused() -> None:
    assert interval([0.5]) == Interval(0.5, None, None, 1)
    assert interval([0.5, 0.5]) == Interval(0.5, 0.5, 0.5, 2, 0.0)
    with pytest.raises(ValueError, match="at least one"):
        interval([])
    with pytest.raises(ValueError, match="finite"):
        interval([0.5, float("nan")])
