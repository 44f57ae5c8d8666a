"""The scores that select and compare runs: accuracy, Pearson r, and the overall score."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minbert.base.errors import UserError, nearest
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.task import known_task


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
    predicted, true = paired(prediction, label)
    if not np.isfinite(predicted).all():
        return 0.0
    x, y = _direction(predicted), _direction(true)
    if x is None or y is None:
        return 0.0
    return float(np.clip(x @ y, -1.0, 1.0))


def _direction(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return `values` centred and of unit length; None if they are constant up to rounding."""
    largest = np.abs(values).max()
    if largest == 0:
        return None
    scaled = values / largest
    centred = scaled - scaled.mean()
    length = np.linalg.norm(centred)
    if length <= 1e-13 * np.sqrt(len(values)):
        return None
    return np.asarray(centred / length)


def paired(
    prediction: ArrayLike, label: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both as float64 [n].

    Raises ValueError if their lengths differ, there are no examples, or a label is missing.
    """
    predicted = np.asarray(prediction, dtype=np.float64)
    true = np.asarray(label, dtype=np.float64)
    if predicted.ndim != 1 or predicted.shape != true.shape:
        raise ValueError(
            "predictions and labels are two vectors of one length, "
            f"found shapes {predicted.shape} and {true.shape}"
        )
    if len(true) == 0:
        raise ValueError("there are no examples to score")
    absent = int((~np.isfinite(true)).sum())
    if absent:
        raise ValueError(f"{absent} of {len(true)} examples have no label: leave them out first")
    return predicted, true


def score_task(task: str, prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the score of `task` by its own metric (`TASKS[task].metric`)."""
    metric = {"accuracy": accuracy, "pearson": pearson}[known_task(task).metric]
    return metric(prediction, label)


def overall(scores: Mapping[str, float], rule: str) -> float | None:
    """Return the overall score of SST, para and STS; None unless all three are in `scores`.

    `normalised`: the mean of SST accuracy, para accuracy and (STS r + 1) / 2, in [0, 1] (papers
    hybrid-bert, adapter-fusion and minibert-unleashed). `plain`: the mean of the three unscaled
    scores (paper minbert-downstream).
    """
    if any(task not in scores for task in OVERALL_TASKS):
        return None
    return selection_score({task: scores[task] for task in OVERALL_TASKS}, rule)


def selection_score(scores: Mapping[str, float], rule: str) -> float:
    """Return the score that chooses the best epoch: the mean over the tasks in `scores`.

    Under rule `normalised` a correlation counts as (r + 1) / 2. For exactly SST, para and STS this
    equals `overall`; stages with other tasks follow the same rule.
    """
    if rule not in RULES:
        raise UserError(
            f"unknown overall rule '{rule}'; known: {', '.join(RULES)}.{nearest(rule, RULES)}"
        )
    if not scores:
        raise ValueError("there is no task to select by")
    correlations = {task for task in scores if known_task(task).metric == "pearson"}
    if rule == "normalised":
        return float(np.mean([(s + 1) / 2 if t in correlations else s for t, s in scores.items()]))
    return float(np.mean(list(scores.values())))
