"""The scores that select and compare runs: those of tasks, and the overall score."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS

Floats = NDArray[np.float64]


def accuracy(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the share of predicted classes [n] that equal the label's class [n], in [0, 1]."""
    predicted, true = paired(prediction, label)
    return float(np.mean(predicted == true))


def pearson(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return Pearson's r of `prediction` [n] and `label` [n], in [-1, 1].

    If r is undefined (a constant side, one example, a prediction that is not finite) the score is
    0.0: such predictions carry no linear information. It is not nan, because every comparison with
    nan is false: a first epoch that scored nan could never be beaten.
    """
    sides = []
    for values in paired(prediction, label):
        largest = np.abs(values).max()
        if not np.isfinite(largest) or largest == 0:
            return 0.0
        scaled = values / largest
        centred = scaled - scaled.mean()
        length = np.linalg.norm(centred)
        if length <= 1e-13 * np.sqrt(len(values)):
            return 0.0  # constant up to rounding
        sides.append(centred / length)
    return float(np.clip(sides[0] @ sides[1], -1.0, 1.0))


def paired(prediction: ArrayLike, label: ArrayLike) -> tuple[Floats, Floats]:
    """Return both as float64 [n]."""
    return np.asarray(prediction, dtype=np.float64), np.asarray(label, dtype=np.float64)


def by_class(prediction: ArrayLike, label: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return how many examples are predicted as each class, of that class, and both, each [c].

    The c classes are those that occur, as predicted or as true.
    """
    predicted, true = paired(prediction, label)
    classes = np.union1d(predicted, true)[:, None]
    said, of = predicted == classes, true == classes
    counts = [side.sum(axis=1, dtype=float) for side in (said, of, said & of)]
    return counts[0], counts[1], counts[2]


def f1(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the F1 of class 1, 2 TP / (2 TP + FP + FN), in [0, 1]; 0 if nothing is positive."""
    predicted, true = (side == 1 for side in paired(prediction, label))
    return float(2 * np.sum(predicted & true) / max(1, predicted.sum() + true.sum()))


def macro_f1(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the mean of F1 over the classes that occur, as predicted or as true, in [0, 1]."""
    said, true, right = by_class(prediction, label)
    return float(np.mean(2 * right / (said + true)))


def matthews(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return Matthews' correlation of two or more classes, in [-1, 1]; 0 if a side is constant.

    Gorodkin (2004), equation 8: the covariance of the two sides' indicators, over the root of the
    product of their variances.
    """
    said, true, right = by_class(prediction, label)
    n = true.sum()
    product = (n * n - true @ true) * (n * n - said @ said)
    return float((n * right.sum() - true @ said) / np.sqrt(product)) if product else 0.0


def spearman(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return Spearman's rho: Pearson's r of the ranks, ties averaged; 0.0 if undefined."""
    return pearson(*map(_ranks, paired(prediction, label)))


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value; equal ones share the mean of theirs, as in scipy.stats."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])


def rmse(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the root of the mean squared error, in the label's unit (STS: points of 0 to 5)."""
    predicted, true = paired(prediction, label)
    return float(np.sqrt(np.mean((predicted - true) ** 2)))


METRICS: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "rmse": rmse,
}
"""What a task may be scored by, all better when higher; and `rmse`, which is reported besides."""

CORRELATIONS = ("matthews", "pearson", "spearman")
"""Those from -1 to 1; the others are from 0 to 1."""


def score_task(task: str, prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the score of `task` by its own metric (`TASKS[task].metric`)."""
    return METRICS[TASKS[task].metric](prediction, label)


def overall(
    scores: Mapping[str, float], rule: str, tasks: Sequence[str] = OVERALL_TASKS
) -> float | None:
    """Return the overall score of `tasks`; None unless all of them are in `scores`.

    `normalised`: the mean of the scores, correlations r as (r + 1) / 2, in [0, 1]. In hybrid-bert,
    adapter-fusion and minibert-unleashed this is the mean of SST accuracy, para accuracy and
    (STS r + 1) / 2. `plain`: the mean of the unscaled scores (minbert-downstream).
    """
    if not set(tasks) <= set(scores):
        return None
    return selection_score({task: scores[task] for task in tasks}, rule)


def selection_score(scores: Mapping[str, float], rule: str) -> float:
    """Return the score that chooses the best epoch: the mean over the tasks in `scores`.

    Under rule `normalised` a correlation counts as (r + 1) / 2. For exactly the tasks of the
    overall score this equals `overall`; stages with other tasks follow the same rule.
    """
    return float(averaged(scores, rule))


def averaged(scores: Mapping[str, ArrayLike], rule: str) -> Floats:
    """Return the mean by `rule` of the scores of tasks, or of many of them of each task alike."""
    weights = ((weight(task, rule), np.asarray(of)) for task, of in scores.items())
    return np.asarray(np.mean([of * by + (1 - by) for by, of in weights], axis=0))


def weight(task: str, rule: str) -> float:
    """Return what a score of `task` is multiplied by in the mean by `rule`."""
    return 0.5 if rule == "normalised" and TASKS[task].metric in CORRELATIONS else 1.0
