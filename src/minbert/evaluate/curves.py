"""What claims measure of runs besides their scores: a number from the curves of each.

There are no examples to draw again for such a number. So its error comes from the seeds alone, with
their variance pooled over rows as for scores (`spread`).
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from minbert.data.parquet import read_file
from minbert.evaluate.bootstrap import RESAMPLES, Sample, Systems, combined
from minbert.evaluate.counts import Floats
from minbert.evaluate.spread import Spread
from minbert.spec.task import TASKS

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


class Curves(Systems):
    """A paper's systems, whose runs can also be measured by their `histories`, by KEY.SEED."""

    def __init__(self, histories: Mapping[str, Path], *args: Any) -> None:
        super().__init__(*args)
        self._histories = histories
        self._curve = cache(self._read)
        self._pooled = cache(self._pool)

    def epochs(self, measure: str, variant: str, task: str) -> int:
        """Return after how many epochs each of a variant's runs was scored, on all tasks alike."""
        return min(len(curve) for run in self._runs(measure, variant, task) for curve in run)

    def measured(self, measure: str, variant: str, task: str) -> Sample:
        """Return a measure of a variant's runs, the same for all draws of examples."""
        values = self._values(measure, variant, task)
        spread = self._pooled(measure, task).get(variant)
        return Sample(values, np.tile(values, (RESAMPLES, 1)), spread)

    def _pool(self, measure: str, task: str) -> dict[str, Spread]:
        """Return the spread of each variant that has learned `task` and whose curves are known."""

        def own(variant: str) -> Spread | None:
            runs = [self._files[each, variant] for each in self._tasks(task)]
            known = all(of[seed] in self._histories for of in runs for seed in of)
            if not known or self.epochs(measure, variant, task) < LEAST[measure]:
                return None
            values = self._values(measure, variant, task)
            variance = float(values.var(ddof=1))
            return Spread(variance, variance, len(values) - 1)

        return self._shared(task, own)

    def _values(self, measure: str, variant: str, task: str) -> Floats:
        return np.array([measured(measure, *run) for run in self._runs(measure, variant, task)])

    def _runs(self, measure: str, variant: str, task: str) -> list[tuple[Floats, Floats]]:
        """Return the curves on train and dev of a variant's runs."""
        sides = ("train", "loss" if measure == "loss" else ""), ("dev", "")
        of_seeds = ((variant, task, seed) for seed in self.seeds(variant, task))
        return [(self._curve(*of, *sides[0]), self._curve(*of, *sides[1])) for of in of_seeds]

    def _read(self, variant: str, task: str, seed: int, split: str, metric: str) -> Floats:
        """Return a run's score by epoch, or another `metric`; overall, the metrics' sum.

        There is none if the tasks of an overall score were not scored equally often.
        """
        curves = {}
        for each in self._tasks(task):
            path = self._histories[self._files[each, variant][seed]]
            curves[each] = by_epoch(path, split, each, metric or TASKS[each].metric)
        if len({len(curve) for curve in curves.values()}) > 1:
            return np.empty(0)
        if metric:
            return np.sum(list(curves.values()), axis=0)
        return combined({each: Sample(curve, curve) for each, curve in curves.items()}, task).values


def by_epoch(history: Path, split: str, task: str, metric: str) -> Floats:
    """Return the mean of a metric over each epoch of a run; of scores there is one an epoch."""
    wanted = {"split": split, "task": task, "metric": metric}
    epochs: defaultdict[int, list[float]] = defaultdict(list)
    for row in read_file(history, ("epoch", "value"), wanted).to_pylist():
        epochs[row["epoch"]].append(row["value"])
    return np.array([np.mean(epochs[epoch]) for epoch in sorted(epochs)])
