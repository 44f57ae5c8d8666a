"""Scores, the overall rules, and the published figures that both must agree with."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr

from minbert.base.errors import UserError
from minbert.evaluate.scoring import accuracy, overall, pearson, score_task, selection_score
from minbert.spec.task import TASKS

PUBLISHED = Path(__file__).parents[2] / "workflow" / "published.csv"


def published() -> list[dict[str, str]]:
    with PUBLISHED.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def test_pearson_agrees_with_scipy() -> None:
    generator = np.random.default_rng(0)
    for scale, shift in ((1.0, 0.0), (1e-200, 0.0), (1e-3, 5.0), (1e150, 0.0)):
        x = generator.normal(size=200) * scale + shift
        y = generator.normal(size=200) + x / (abs(x).max())
        reference = pearsonr(x * (1e100 if scale < 1e-100 else 1), y).statistic
        assert pearson(x, y) == pytest.approx(reference, abs=1e-10)


@pytest.mark.parametrize(
    ("prediction", "label"),
    [
        ([0.7] * 5, [0, 1, 2, 3, 4]),
        ([0.1 + 0.2] * 3 + [0.3] * 2, [0, 1, 2, 3, 4]),
        ([0.0] * 5, [0, 1, 2, 3, 4]),
        ([0, 1, 2, 3, 4], [2.5] * 5),
        ([1.0], [2.0]),
        ([0, 1, float("nan"), 3, 4], [0, 1, 2, 3, 4]),
        ([0, 1, float("inf"), 3, 4], [0, 1, 2, 3, 4]),
    ],
)
def test_undefined_correlation_is_zero_and_never_nan(
    prediction: list[float], label: list[float]
) -> None:
    assert pearson(prediction, label) == 0.0


@pytest.mark.parametrize("metric", [accuracy, pearson])
def test_vectors_that_do_not_pair_are_refused(metric) -> None:
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        metric([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="no examples"):
        metric([], [])
    with pytest.raises(ValueError, match="1 of 2 examples have no label"):
        metric([1, 2], [1, None])


def test_each_task_is_scored_by_its_own_metric() -> None:
    label, prediction = [0, 1, 1, 0], [0, 1, 0, 0]
    for name, task in TASKS.items():
        expected = {"accuracy": 0.75, "pearson": pearson(prediction, label)}[task.metric]
        assert score_task(name, prediction, label) == expected
    with pytest.raises(UserError, match=r"unknown task 'stt'.*Did you mean"):
        score_task("stt", prediction, label)


def test_every_published_overall_follows_its_papers_rule() -> None:
    """To 0.001, but for one row whose own figures give 0.6668 where its paper prints 0.669."""
    checked = 0
    for row in published():
        if not row["overall"] or not row["sst"]:
            continue
        rule, other = "normalised", "plain"
        if row["paper"] == "minbert-downstream":
            rule, other = other, rule
        scores = {task: float(row[task]) for task in ("sst", "para", "sts")}
        tolerance = 0.0025 if row["variant"] == "rss-mp-cs" else 0.001
        assert overall(scores, rule) == pytest.approx(float(row["overall"]), abs=tolerance), row
        assert overall(scores, other) != pytest.approx(float(row["overall"]), abs=0.01), row
        checked += 1
    assert checked == 28


def test_overall_golden_values() -> None:
    scores = {"sst": 0.5, "para": 0.8, "sts": 0.6, "cfimdb": 0.1}
    assert overall(scores, "normalised") == pytest.approx(0.7)
    assert overall(scores, "plain") == pytest.approx(1.9 / 3)
    assert overall({"sst": 0.5, "para": 0.8}, "plain") is None
    with pytest.raises(UserError, match=r"unknown overall rule 'normalized'.*'normalised'"):
        overall(scores, "normalized")


def test_selection_works_with_fewer_tasks() -> None:
    assert selection_score({"sts": -0.5}, "normalised") == 0.25
    assert selection_score({"sts": -0.5}, "plain") == -0.5
    assert selection_score({"cfimdb": 0.9, "lmrd": 0.7}, "normalised") == pytest.approx(0.8)
