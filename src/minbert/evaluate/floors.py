"""What a score must beat to show that anything was learnt: the most frequent class, or r = 0."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, ndtr, stdtr

from minbert.evaluate.bootstrap import resampled_scores
from minbert.evaluate.counts import Floats
from minbert.evaluate.scoring import paired, score_task
from minbert.evaluate.statistics import LEVEL
from minbert.spec.task import TASKS


class FloorTest(NamedTuple):
    """A score, its floor, and the one-sided p-value of being no better than that.

    `constant`: the predictions are one class, or one number.
    """

    score: float
    floor: float
    p: float
    constant: bool

    @property
    def above(self) -> bool:
        """Whether the score is above its floor at the 5 % level."""
        return self.p <= LEVEL


def against_floor(task: str, prediction: ArrayLike, label: ArrayLike) -> FloorTest:
    """Compare the predictions [n] of a run with the floor on the same examples.

    Accuracy: the share of the most frequent label, by McNemar's test in its exact form (sign test)
    over the examples on which one of the two is right. Pearson's r and Spearman's rho: 0, by the t
    test with n - 2 degrees of freedom. F1 and Matthews' correlation: that of the class which scores
    highest if always predicted. Macro-F1: 1 / classes, which guessing as often as each class occurs
    comes to, more than any other guess. These are tested by the normal distribution with the
    standard error that the bootstrap over examples gives the difference.
    """
    predicted, true = paired(prediction, label)
    score = score_task(task, predicted, true)
    constant = bool(np.all(predicted == predicted[0]))
    metric = TASKS[task].metric
    if metric in ("pearson", "spearman"):
        return FloorTest(score, 0.0, _above_zero(score, len(true)), constant)
    if metric != "accuracy":
        floor, p = _above_guess(task, score, predicted, true)
        return FloorTest(score, floor, p, constant)
    values, counts = np.unique(true, return_counts=True)
    right, always = predicted == true, true == values[counts.argmax()]
    won, lost = int(np.sum(right & ~always)), int(np.sum(~right & always))
    # P(at least `won` of all) = P(more than `won` - 1), each with probability 1/2.
    p = float(bdtrc(won - 1, won + lost, 0.5)) if won else 1.0
    return FloorTest(score, float(always.mean()), p, constant)


def _above_guess(task: str, score: float, predicted: Floats, true: Floats) -> tuple[float, float]:
    """Return (floor, p) of `score` against the best guess that does not look at the text."""
    classes = np.unique(true)
    if TASKS[task].metric == "macro_f1":
        floor, columns = 1 / len(classes), [predicted]
    else:
        always = [np.full(len(true), each) for each in classes]
        best = max(always, key=lambda each: score_task(task, each, true))
        floor, columns = score_task(task, best, true), [predicted, best]
    if score <= floor:
        return floor, 1.0
    draws = resampled_scores(task, np.column_stack(columns), true)
    error = float((draws[:, 0] - (draws[:, 1] if len(columns) > 1 else floor)).std())
    return floor, float(ndtr((floor - score) / error)) if error else 0.0


def _above_zero(r: float, n: int) -> float:
    """Return the one-sided p-value of Pearson's `r` of `n` examples against 0."""
    if n < 3 or r <= 0:
        return 1.0
    if r >= 1:
        return 0.0
    return float(stdtr(n - 2, -r * np.sqrt((n - 2) / (1 - r * r))))
