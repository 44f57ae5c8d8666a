"""What claims measure of runs besides their scores: a number from the curves of each.

There are no examples to draw again for such a number. So its error comes from the seeds alone, with
their variance pooled over rows as for scores (`spread`).
"""

from pathlib import Path

import numpy as np

from minbert.data.parquet import read_file
from minbert.evaluate.scoring import Floats

LAST = 5
"""The epochs at the end that `spread` is over."""

LEAST = {"gap": 1, "spread": LAST, "epoch": LAST, "loss": 1}
"""How many scored epochs each measure takes: a shorter run would look steady for its length."""


def measured(measure: str, train: Floats, dev: Floats) -> float:
    """Return the `measure` of a run from its curves, with a value for each epoch.

    `gap`: train less dev score after the last epoch. `spread`: the largest less the smallest dev
    score of the last five epochs. `epoch`: the first whose dev score is within 1 % of the run's
    best, as a share of the run; the best itself may be any epoch of a plateau. `loss`: the mean on
    train over all epochs, as the end of a long run does not show how fast it fell.
    """
    if measure == "spread":
        return float(np.ptp(dev[-LAST:]))
    if measure == "epoch":
        reached = dev >= dev.max() - 0.01 * abs(dev.max())
        return float((1 + reached.argmax()) / len(dev))
    return float(train[-1] - dev[-1] if measure == "gap" else train.mean())


def by_epoch(history: Path, split: str, task: str, metric: str) -> Floats:
    """Return the mean of a metric over each epoch of a run; of scores there is one an epoch."""
    rows = read_file(history, ("epoch", "value"), {"split": split, "task": task, "metric": metric})
    epochs = rows.group_by("epoch").aggregate([("value", "mean")]).sort_by("epoch")
    return np.asarray(epochs["value_mean"].to_numpy(), dtype=float)
