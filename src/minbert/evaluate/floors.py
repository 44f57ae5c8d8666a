"""Floors: the scores of always guessing the most frequent class, and r = 0."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, ndtr, stdtr

from minbert.evaluate.bootstrap import standard_error
from minbert.evaluate.reading import Score
from minbert.evaluate.scoring import f1, paired, score_task
from minbert.spec.task import TASKS


def against_floor(task: str, prediction: ArrayLike, label: ArrayLike) -> Score:
    """Return the score of the predictions [n] of a run, with its floor on the same examples.

    Accuracy: the share of the most frequent label, by McNemar's test in its exact form (sign test)
    over the examples on which one of the two is right. Pearson's r and Spearman's rho: 0, by the t
    test with n - 2 degrees of freedom. F1: always predicting class 1; Matthews' correlation: 0;
    macro-F1: 1 / classes, which guessing as often as each class occurs comes to. These are tested
    by the normal distribution with the standard error over examples. All tests are one-sided.
    """
    predicted, true = paired(prediction, label)
    score, error = score_task(task, predicted, true), standard_error(task, predicted, true)
    metric, n = TASKS[task].metric, len(true)
    classes, counts = np.unique(true, return_counts=True)
    if metric in ("pearson", "spearman"):
        floor = 0.0
        t = score * np.sqrt((n - 2) / max(1 - score**2, 1e-300)) if n > 2 else 0.0
        p = stdtr(max(1, n - 2), -t)
    elif metric == "accuracy":
        right, always = predicted == true, true == classes[counts.argmax()]
        won, lost = np.sum(right & ~always), np.sum(~right & always)
        floor = float(always.mean())
        # P(at least `won` of all) = P(more than `won` - 1), each with probability 1/2.
        p = bdtrc(won - 1, won + lost, 0.5) if won else 1.0
    else:
        floor = {"f1": f1(np.ones(n), true), "macro_f1": 1 / len(classes)}.get(metric, 0.0)
        p = ndtr((floor - score) / error) if error else score <= floor
    constant = bool(np.all(predicted == predicted[0]))
    return Score(score, "", None, floor, float(p), constant, error)
