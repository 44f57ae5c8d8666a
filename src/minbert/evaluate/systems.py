"""The variants of a paper on dev: scores on the same resampled examples, and what curves say.

A claim measures a number from the curves of each run, or its score. There are no examples to draw
again for such a number, so its error comes from the seeds alone, with their variance pooled over
rows as for scores (`statistics.steadied`).
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from minbert.data.parquet import read_file
from minbert.evaluate.bootstrap import RESAMPLES, Run, System, resampled
from minbert.evaluate.predictions import read_predicted
from minbert.evaluate.reading import Of, Scores
from minbert.evaluate.scoring import Floats, averaged
from minbert.evaluate.seeds import learned, shared_spreads
from minbert.evaluate.statistics import own_spread
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.published import MAJORITY
from minbert.spec.task import TASKS

LAST = 5
"""The epochs at the end that the measure `spread` is over."""

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


def _of_task(parts: Mapping[str, Floats], task: str) -> Floats:
    """Return the part of `task`, or the mean by that overall rule of all parts."""
    return averaged(parts, task) if task in RULES else parts[task]


class Systems:
    """Variants that have `scores` on the same dev examples.

    `runs` has a file beside the others of each run by KEY.SEED, `overall_tasks` are those of the
    overall score, `curved` the variants whose curves are compared.
    """

    def __init__(
        self,
        scores: Scores,
        runs: Mapping[str, Path],
        overall_tasks: Sequence[str] = OVERALL_TASKS,
        curved: Collection[str] = (),
    ) -> None:
        self._scores, self._files, self._curved = scores, runs, curved
        self._overall = tuple(overall_tasks)
        self.of = cache(self._of)
        self._resampled = cache(self._resample)

    def _of(self, task: str, measure: str = "") -> dict[str, System]:
        """Return the variants with scores on `task`, or by an overall rule, and `MAJORITY`.

        All are scored on the same resampled examples. Those that have learned the task share their
        spread (`seeds.shared_spreads`). A `measure` (`measured`) is of the curved ones alone.
        """
        parts = self._overall if task in RULES else (task,)
        found: dict[str, System] = {}
        for name in dict.fromkeys(of.variant for of in self._scores):
            of_parts = {part: self._scores.get(Of(name, "dev", part), {}) for part in parts}
            seeds = sorted(set.intersection(*map(set, of_parts.values())))
            if seeds and (name in self._curved or not measure):
                runs = [{part: f"{of[n].key}.{n}" for part, of in of_parts.items()} for n in seeds]
                known = learned(self._scores, Of(name, "dev", task), self._overall)
                found[name] = self._system(runs, task, measure)._replace(learned=known is True)
        own = {
            Of(name, "dev", task): spread
            for name, one in found.items()
            if one.epochs >= LEAST.get(measure, 0) and (spread := own_spread(one.scores))
        }
        for of, spread in shared_spreads(self._scores, own, self._overall).items():
            found[of.variant] = found[of.variant]._replace(spread=spread)
        if found and not measure:
            found[MAJORITY] = self._system([dict.fromkeys(parts, MAJORITY)], task)._replace(runs=())
        return found

    def _system(self, runs: Sequence[Run], task: str, measure: str = "") -> System:
        drawn = {part: self._resampled(part) for part in runs[0]}
        examples = sum(n for _, n in drawn.values())
        if not measure:
            parts = {t: np.stack([of[run[t]] for run in runs], 1) for t, (of, _) in drawn.items()}
            return System(_of_task(parts, task), runs, examples)
        metric = "loss" * (measure == "loss")
        curves = [
            (self._curve(run, "train", task, metric), self._curve(run, "dev", task)) for run in runs
        ]
        epochs = min(len(curve) for pair in curves for curve in pair)
        enough = epochs >= LEAST[measure]
        values = [measured(measure, *pair) if enough else np.nan for pair in curves]
        return System(np.tile(values, (RESAMPLES + 1, 1)), runs, examples, epochs)

    def _curve(self, run: Run, split: str, task: str, metric: str = "") -> Floats:
        """Return the score by epoch of a run.

        Of another `metric` it is the mean over each epoch, and overall the tasks' sum. There is
        none if the tasks were not scored equally often.
        """
        curves = {}
        for part, name in run.items():
            of = {"split": split, "task": part, "metric": metric or TASKS[part].metric}
            path = self._files[name].with_name("history.parquet")
            rows = read_file(path, ("epoch", "value"), of)
            epochs = rows.group_by("epoch").aggregate([("value", "mean")]).sort_by("epoch")
            curves[part] = np.asarray(epochs["value_mean"], float)
        if len({*map(len, curves.values())}) > 1:
            return np.empty(0)
        return np.sum([*curves.values()], axis=0) if metric else _of_task(curves, task)

    def _resample(self, task: str) -> tuple[dict[str, Floats], int]:
        """Return the scores [1 + b] of all runs of a task, and the number of examples."""
        of_task = (seeds for of, seeds in self._scores.items() if of[1:] == ("dev", task))
        runs = list({f"{one.key}.{n}": None for of in of_task for n, one in of.items()})
        paths = [self._files[run].with_name("predictions.parquet") for run in runs]
        read = read_predicted(paths, task)
        values, counts = np.unique(read.label, return_counts=True)
        always = np.full(len(read.ids), values[counts.argmax()])
        scores = resampled(task, np.vstack([read.prediction, always]), read.label)
        return dict(zip([*runs, MAJORITY], scores.T, strict=True)), len(read.ids)
