"""The scores that runs are selected and compared by: accuracy, Pearson r, and the overall score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minbert.common.errors import UserError, nearest
from minbert.grid.tasks import TASKS

Rule = Literal["normalised", "plain"]
OVERALL_TASKS = ("sst", "para", "sts")


def accuracy(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the share of predicted classes [n] that equal the label's class [n], in [0, 1]."""
    predicted, true = paired(prediction, label)
    return float(np.mean(predicted == true))


def pearson(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return Pearson's r of `prediction` [n] and `label` [n], in [-1, 1].

    Where r is undefined (a constant side, one example, a prediction that is not finite) the
    score is 0.0: such predictions carry no linear information, which is what 0 says. A nan would
    be worse than wrong, because every comparison with it is false: a first epoch that scored nan
    could never be beaten, and an epoch that did could end up as the best.
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

    Lengths that differ, no examples at all and labels that are absent raise ValueError.
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
    metric = {"accuracy": accuracy, "pearson": pearson}[TASKS[_known(task)].metric]
    return metric(prediction, label)


def overall(scores: Mapping[str, float], rule: str) -> float | None:
    """Return the overall score of SST, para and STS, or None unless all three are in `scores`.

    `normalised`: the mean of SST accuracy, para accuracy and (STS r + 1) / 2, in [0, 1] (papers
    hybrid-bert, adapter-fusion and minibert-unleashed). `plain`: the mean of the three as they
    are (paper minbert-downstream).
    """
    _check(rule)
    if any(task not in scores for task in OVERALL_TASKS):
        return None
    return _mean({task: scores[task] for task in OVERALL_TASKS}, rule)


def selection_score(scores: Mapping[str, float], rule: str) -> float:
    """Return what the best epoch is chosen by: the mean over the tasks that `scores` has.

    A correlation enters as (r + 1) / 2 under rule `normalised`. With exactly SST, para and STS
    this is `overall`; a stage of fewer tasks, or of others, is chosen by the same rule.
    """
    _check(rule)
    if not scores:
        raise ValueError("there is no task to select by")
    return _mean(scores, rule)


def _mean(scores: Mapping[str, float], rule: str) -> float:
    correlations = {task for task in scores if TASKS[_known(task)].metric == "pearson"}
    if rule == "normalised":
        return float(np.mean([(s + 1) / 2 if t in correlations else s for t, s in scores.items()]))
    return float(np.mean(list(scores.values())))


def _check(rule: str) -> None:
    rules = get_args(Rule)
    if rule not in rules:
        raise UserError(
            f"unknown overall rule '{rule}'; known: {', '.join(rules)}.{nearest(rule, rules)}"
        )


def _known(task: str) -> str:
    if task not in TASKS:
        raise UserError(f"unknown task '{task}'; known: {', '.join(TASKS)}.{nearest(task, TASKS)}")
    return task
