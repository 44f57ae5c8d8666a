"""How far one run's score would move with other examples."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from minbert.evaluate.bootstrap import resampled_scores
from minbert.evaluate.counts import Floats
from minbert.evaluate.scoring import CORRELATIONS, paired
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS


def standard_error(task: str, prediction: ArrayLike, label: ArrayLike) -> float | None:
    """Return the standard error over examples of the score that `scoring.score_task` gives.

    Accuracy: that of a share. Pearson r: by the infinitesimal jackknife, the root mean square of
    what each example adds to r, over sqrt(n). Both are what the bootstrap over examples comes to
    with many resamples (Efron & Tibshirani 1993, chapters 5 and 22); of other metrics it is that
    bootstrap's. Correlations of constant predictions have none.
    """
    predicted, true = paired(prediction, label)
    n = len(true)
    metric = TASKS[task].metric
    if metric == "accuracy":
        right = float(np.mean(predicted == true))
        return float(np.sqrt(right * (1 - right) / n))
    if predicted.std() == 0 or true.std() == 0:
        return None if metric in CORRELATIONS else _resampled_error(task, predicted, true)
    if metric != "pearson":
        return _resampled_error(task, predicted, true)
    x = (predicted - predicted.mean()) / predicted.std()
    y = (true - true.mean()) / true.std()
    influence = x * y - float(np.mean(x * y)) * (x**2 + y**2) / 2
    return float(np.sqrt(np.mean(influence**2) / n))


def _resampled_error(task: str, predicted: Floats, true: Floats) -> float:
    return float(resampled_scores(task, predicted[:, None], true).std())


def overall_error(
    errors: Mapping[str, float | None], rule: str, tasks: Sequence[str] = OVERALL_TASKS
) -> float | None:
    """Return that of the overall score of `tasks` by `rule`; None unless all of them have one.

    Tasks have different examples, so variances add up; (r + 1) / 2 halves that of r.
    """
    known = [error for task in tasks if (error := errors.get(task)) is not None]
    if len(known) < len(tasks):
        return None
    halved = [t for t in tasks if rule == "normalised" and TASKS[t].metric in CORRELATIONS]
    parts = [error / (2 if task in halved else 1) for task, error in zip(tasks, known, strict=True)]
    return float(np.linalg.norm(parts) / len(parts))
