"""All metrics reported for a task: its own, then additional ones."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from minbert.evaluate.scoring import paired, pearson, score_task
from minbert.spec.task import TASKS


def f1(prediction: ArrayLike, label: ArrayLike, positive: float = 1.0) -> float:
    """Return the F1 of class `positive`: 2 TP / (2 TP + FP + FN); 0.0 if nothing is positive."""
    predicted, true = paired(prediction, label)
    hits = np.sum((predicted == positive) & (true == positive))
    marked = np.sum(predicted == positive) + np.sum(true == positive)
    return float(2 * hits / marked) if marked else 0.0


def macro_f1(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the unweighted mean of F1 over the classes that occur among predictions or labels."""
    predicted, true = paired(prediction, label)
    classes = np.union1d(predicted, true)
    return float(np.mean([f1(predicted, true, positive) for positive in classes]))


def spearman(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return Spearman's rho: Pearson's r of the ranks, ties averaged; 0.0 if undefined."""
    predicted, true = paired(prediction, label)
    if not np.isfinite(predicted).all():
        return 0.0
    from scipy.stats import rankdata  # takes a second to import

    return pearson(rankdata(predicted), rankdata(true))


def rmse(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the root of the mean squared error, in the label's unit (STS: points of 0 to 5)."""
    predicted, true = paired(prediction, label)
    return float(np.sqrt(np.mean((predicted - true) ** 2)))


_ADDITIONAL: dict[str, dict[str, Callable[[ArrayLike, ArrayLike], float]]] = {
    "classification": {"macro_f1": macro_f1},
    "binary": {"f1": f1},
    "regression": {"spearman": spearman, "rmse": rmse},
}


def task_metrics(task: str, prediction: ArrayLike, label: ArrayLike) -> dict[str, float]:
    """Return {metric: value} of `task` for predictions [n] and labels [n], its own metric first.

    Classification adds macro-F1, binary tasks F1 of class 1, regression Spearman's rho and RMSE.
    """
    own: dict[str, float] = {TASKS[task].metric: score_task(task, prediction, label)}
    more = _ADDITIONAL[TASKS[task].kind].items()
    return own | {name: metric(prediction, label) for name, metric in more}
