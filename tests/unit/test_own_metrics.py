"""The metrics that a task of one's own may have: against scikit-learn, scipy and simulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from own_tasks import ALL, using
from scipy.stats import spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef

from minbert.evaluate.bootstrap import (
    SEED,
    _stream,
    overall_error,
    resampled,
    standard_error,
)
from minbert.evaluate.floors import against_floor
from minbert.evaluate.scoring import f1, macro_f1, matthews, overall, score_task, selection_score


@pytest.fixture(autouse=True)
def _tasks() -> Iterator[None]:
    with using(*ALL):
        yield


def drawn(task: str, n: int, skill: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions and labels of a task, right with probability `skill`."""
    draw = np.random.default_rng(seed)
    if task == "rank":
        labels = draw.integers(0, 11, n).astype(float)
        return np.round(skill * labels + (1 - skill) * draw.normal(5, 4, n), 1), labels
    classes = {"same": 2, "cola": 2, "macro": 4, "mood": 3}[task]
    labels = draw.choice(classes, n, p=np.arange(1, classes + 1) / sum(range(classes + 1)))
    other = draw.integers(0, classes, n)
    return np.where(draw.random(n) < skill, labels, other).astype(float), labels.astype(float)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_scores_of_classes_are_those_of_scikit_learn(classes: int) -> None:
    draw = np.random.default_rng(classes)
    label = draw.integers(0, classes, 40)
    predicted = np.where(draw.random(40) < 0.5, label, draw.integers(0, classes, 40))
    assert macro_f1(predicted, label) == pytest.approx(f1_score(label, predicted, average="macro"))
    assert matthews(predicted, label) == pytest.approx(matthews_corrcoef(label, predicted))
    if classes == 2:
        assert f1(predicted, label) == pytest.approx(f1_score(label, predicted))


def test_scores_of_one_class_alone() -> None:
    ones, mixed = np.ones(6), np.array([0, 1, 1, 0, 1, 1])
    assert matthews(ones, mixed) == matthews(mixed, ones) == 0.0
    assert f1(np.zeros(6), mixed) == 0.0
    assert macro_f1(np.full(3, 2), np.full(3, 2)) == 1.0
    assert standard_error("rank", ones, mixed) is standard_error("cola", ones, mixed) is None
    assert standard_error("same", ones, mixed) is not None


@pytest.mark.parametrize("task", ["same", "macro", "cola", "mood", "rank"])
def test_every_resample_is_scored_as_a_whole_set_is(task: str) -> None:
    """By drawing the same examples again."""
    predicted, labels = drawn(task, 50, 0.6)
    both = np.vstack([predicted, drawn(task, 50, 0.2, seed=1)[0]])
    found = resampled(task, both, labels, 12)[1:]
    rows = np.random.default_rng([SEED, _stream(task)]).integers(0, 50, size=(12, 50))
    for resample, scores in zip(rows, found, strict=True):
        wanted = [score_task(task, side[resample], labels[resample]) for side in both]
        assert scores == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("task", ["same", "macro", "mood", "rank"])
def test_the_standard_error_is_the_spread_over_other_examples(task: str) -> None:
    whole = [score_task(task, *drawn(task, 300, 0.5, seed)) for seed in range(200)]
    errors = [standard_error(task, *drawn(task, 300, 0.5, seed)) for seed in range(3)]
    assert np.mean(np.array(errors, float)) == pytest.approx(np.std(whole), rel=0.15)


@pytest.mark.parametrize(
    ("task", "floor"), [("same", None), ("macro", 1 / 4), ("cola", 0), ("mood", 0), ("rank", 0)]
)
def test_the_floor_is_the_best_guess_without_looking(task: str, floor: float | None) -> None:
    predicted, labels = drawn(task, 200, 0.7)
    found = against_floor(task, predicted, labels)
    wanted = f1_score(labels, np.ones(200)) if floor is None else floor
    assert found.floor == pytest.approx(wanted) and not found.constant
    assert found.learned and found.value == score_task(task, predicted, labels) > found.floor
    if task == "rank":
        test = spearmanr(predicted, labels, alternative="greater")
        assert (found.value, found.p_floor) == pytest.approx((test.statistic, test.pvalue))
    flat = against_floor(task, np.full(200, labels.max()), labels)
    assert flat.constant and not flat.learned and flat.value <= flat.floor


def test_correlations_count_between_0_and_1_if_normalised() -> None:
    scores = {"same": 0.6, "cola": 0.2, "rank": -0.4}
    assert selection_score(scores, "normalised") == pytest.approx((0.6 + 0.6 + 0.3) / 3)
    assert selection_score(scores, "plain") == pytest.approx(0.4 / 3)
    assert overall(scores, "plain", ("same", "cola")) == pytest.approx(0.4)
    assert overall(scores, "plain", ("same", "macro")) is None
    halved = overall_error({"same": 0.03, "cola": 0.08}, "normalised", ("same", "cola"))
    assert halved == pytest.approx(np.hypot(0.03, 0.04) / 2)
