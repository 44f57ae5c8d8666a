"""All metrics reported for a task: its own, then additional ones."""

import numpy as np
from numpy.typing import ArrayLike

from minbert.evaluate.scoring import METRICS, paired
from minbert.spec.task import TASKS


def rmse(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the root of the mean squared error, in the label's unit (STS: points of 0 to 5)."""
    predicted, true = paired(prediction, label)
    return float(np.sqrt(np.mean((predicted - true) ** 2)))


_KNOWN = {**METRICS, "rmse": rmse}
_REPORTED = {
    "classification": ("accuracy", "macro_f1"),
    "binary": ("accuracy", "f1"),
    "regression": ("pearson", "spearman", "rmse"),
}


def task_metrics(task: str, prediction: ArrayLike, label: ArrayLike) -> dict[str, float]:
    """Return {metric: value} of `task` for predictions [n] and labels [n], its own metric first.

    Others follow: accuracy and macro-F1 of a classification, accuracy and F1 of class 1 of a binary
    task, Pearson's r, Spearman's rho and RMSE of a regression.
    """
    names = dict.fromkeys((TASKS[task].metric, *_REPORTED[TASKS[task].kind]))
    return {name: _KNOWN[name](prediction, label) for name in names}
