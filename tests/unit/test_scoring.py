"""Scores, the overall rules, and the published figures that both must agree with."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr

from minbert.evaluate.scoring import accuracy, overall, pearson, selection_score
from minbert.spec.task import TASKS

PUBLISHED = Path(__file__).parents[2] / "workflow" / "published.csv"


def test_accuracy_and_pearson() -> None:
    assert accuracy([0, 1, 2, 3], [0, 1, 2, 4]) == 0.75
    generator = np.random.default_rng(0)
    for scale, shift in ((1.0, 0.0), (1e-3, 5.0), (1e150, 0.0)):
        x = generator.normal(size=200) * scale + shift
        y = generator.normal(size=200) + x / (abs(x).max())
        assert pearson(x, y) == pytest.approx(pearsonr(x, y).statistic, abs=1e-10)
    x = np.array([0.1, 0.2, 0.7, 0.30000000000000004])
    assert pearson(x, x) <= 1.0


@pytest.mark.parametrize(
    ("prediction", "label"),
    [
        ([0.1 + 0.2] * 3 + [0.3] * 2, [0, 1, 2, 3, 4]),
        ([0, 1, 2, 3, 4], [2.5] * 5),
        ([1.0], [2.0]),
        ([0, 1, float("nan"), 3, 4], [0, 1, 2, 3, 4]),
    ],
)
def test_undefined_correlation_is_zero_and_never_nan(
    prediction: list[float], label: list[float]
) -> None:
    assert pearson(prediction, label) == 0.0


def test_what_cannot_be_scored_is_refused() -> None:
    for label in ([1, 2, 3], [1, None]):
        with pytest.raises(ValueError, match="as many of each, at least one, and no label missing"):
            accuracy([1, 2], label)


def test_every_published_row_is_there_once_and_overall_follows_its_papers_rule() -> None:
    """To 0.001, but for one row whose own figures give 0.6668 where its paper prints 0.669."""
    with PUBLISHED.open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert len({(r["paper"], r["table"], r["row"], r["variant"], r["split"]) for r in rows}) == 56
    assert all(bool(r["other"]) == (r["other_task"] in TASKS) for r in rows)
    whole = [row for row in rows if row["overall"] and row["sst"]]
    assert (len(rows), len(whole)) == (56, 28)
    for row in whole:
        rule, other = "normalised", "plain"
        if row["paper"] == "minbert-downstream":
            rule, other = other, rule
        scores = {task: float(row[task]) for task in ("sst", "para", "sts")}
        tolerance = 0.0025 if row["variant"] == "rss-mp-cs" else 0.001
        assert overall(scores, rule) == pytest.approx(float(row["overall"]), abs=tolerance), row
        assert overall(scores, other) != pytest.approx(float(row["overall"]), abs=0.01), row


def test_selection_is_the_overall_and_works_with_fewer_tasks() -> None:
    scores = {"sts": 0.6, "sst": 0.5, "para": 0.8}
    for rule, value in {"normalised": 0.7, "plain": 1.9 / 3}.items():
        assert selection_score(scores, rule) == pytest.approx(value)
        assert overall(scores | {"cfimdb": 0.1}, rule) == pytest.approx(value)
    assert overall({"sst": 0.5, "para": 0.8}, "plain") is None
    assert selection_score({"sts": -0.5}, "normalised") == 0.25
    assert selection_score({"sts": -0.5}, "plain") == -0.5
