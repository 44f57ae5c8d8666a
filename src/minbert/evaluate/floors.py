"""What a score must beat to show that anything was learnt: the most frequent class, or r = 0."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, ndtr, stdtr

from minbert.evaluate.bootstrap import standard_error
from minbert.evaluate.scoring import f1, paired, score_task
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
    test with n - 2 degrees of freedom. F1: always predicting class 1; Matthews' correlation: 0;
    macro-F1: 1 / classes, which guessing as often as each class occurs comes to. These are tested
    by the normal distribution with the standard error over examples.
    """
    predicted, true = paired(prediction, label)
    score = score_task(task, predicted, true)
    constant = bool(np.all(predicted == predicted[0]))
    metric = TASKS[task].metric
    classes, counts = np.unique(true, return_counts=True)
    if metric in ("pearson", "spearman"):
        floor, p = 0.0, _above_zero(score, len(true))
    elif metric == "accuracy":
        right, always = predicted == true, true == classes[counts.argmax()]
        won, lost = int(np.sum(right & ~always)), int(np.sum(~right & always))
        # P(at least `won` of all) = P(more than `won` - 1), each with probability 1/2.
        p = float(bdtrc(won - 1, won + lost, 0.5)) if won else 1.0
        floor = float(always.mean())
    else:
        floors = {"f1": f1(np.ones_like(true), true), "macro_f1": 1 / len(classes)}
        floor = floors.get(metric, 0.0)
        error = standard_error(task, predicted, true)
        p = float(ndtr((floor - score) / error)) if error else float(score <= floor)
    return FloorTest(score, floor, p, constant)


def _above_zero(r: float, n: int) -> float:
    """Return the one-sided p-value of Pearson's `r` of `n` examples against 0."""
    if n < 3 or r <= 0:
        return 1.0
    if r >= 1:
        return 0.0
    return float(stdtr(n - 2, -r * np.sqrt((n - 2) / (1 - r * r))))
