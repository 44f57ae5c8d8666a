"""All metrics reported for a task, its own and additional ones; the gain over single tasks."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike

from minbert.evaluate.scoring import METRICS, paired
from minbert.spec.protocol import OVERALL_TASKS
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


def delta_m(
    scores: Mapping[str, float], single: Mapping[str, float], tasks: Sequence[str] = OVERALL_TASKS
) -> float | None:
    """Return delta m: the mean over `tasks` of (score - single) / single, in per cent.

    Equation 5 of Maninis et al. (2019), where all scores are better when higher. None if a score
    is missing or a `single` is not above 0, as a gain is then no share of it.
    """
    if not all(task in scores and single.get(task, 0.0) > 0 for task in tasks):
        return None
    return 100 * fmean((scores[task] - single[task]) / single[task] for task in tasks)
