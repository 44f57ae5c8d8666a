"""The variants of a paper on dev: scores on the same resampled examples, and what curves say.

A claim measures a number from the curves of each run, or its score. There are no examples to draw
again for such a number, so its error comes from the seeds alone, with their variance pooled over
rows as for scores (`seeds.steadied`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from minbert.data.parquet import read_file
from minbert.evaluate.bootstrap import RESAMPLES, System, resampled
from minbert.evaluate.predictions import read_predicted
from minbert.evaluate.reading import Scores
from minbert.evaluate.scoring import Floats, averaged
from minbert.evaluate.seeds import Run, learned, own_spread, shared_spreads, trainings
from minbert.spec.protocol import OVERALL_TASKS
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


@dataclass(frozen=True, eq=False)
class Systems:
    """Variants that have `scores` on the same dev examples.

    `files` has a file beside the others of each run by KEY.SEED, `overall_tasks` are those of the
    overall score, `curved` the variants whose curves are compared.
    """

    scores: Scores
    files: Mapping[str, Path]
    overall_tasks: Sequence[str] = OVERALL_TASKS
    curved: Collection[str] = ()

    @cache  # noqa: B019 - a process has few of these
    def of(self, task: str, measure: str = "") -> dict[str, System]:
        """Return the variants with scores on `task`, or by an overall rule, and `MAJORITY`.

        All are scored on the same resampled examples. Those that have learned the task share their
        spread (`seeds.shared_spreads`). A `measure` (`measured`) is of the curved ones alone.
        """
        found = {}
        for of in self.scores:
            if of[1:] == ("dev", task) and (of.variant in self.curved or not measure):
                runs = trainings(self.scores, of, self.overall_tasks)
                above = learned(self.scores, of, self.overall_tasks)
                found[of] = self._system(runs, task, measure)._replace(learned=above is True)
        own = {
            of: spread
            for of, one in found.items()
            if one.epochs >= LEAST.get(measure, 0) and (spread := own_spread(one.scores))
        }
        for of, spread in shared_spreads(self.scores, own, self.overall_tasks).items():
            found[of] = found[of]._replace(spread=spread)
        systems = {of.variant: one for of, one in found.items()}
        if found and not measure:
            guess = dict.fromkeys(runs[0], MAJORITY)
            systems[MAJORITY] = self._system([guess], task)._replace(runs=())
        return systems

    def _system(self, runs: Sequence[Run], task: str, measure: str = "") -> System:
        drawn = {part: self._resampled(part) for part in runs[0]}
        examples = sum(n for _, n in drawn.values())
        if not measure:
            parts = {t: np.stack([of[run[t]] for run in runs], 1) for t, (of, _) in drawn.items()}
            return System(averaged(parts, task), runs, examples)
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
            path = self.files[name].with_name("history.parquet")
            rows = read_file(path, ("epoch", "value"), of)
            epochs = rows.group_by("epoch").aggregate([("value", "mean")]).sort_by("epoch")
            curves[part] = np.asarray(epochs["value_mean"], float)
        if len({*map(len, curves.values())}) > 1:
            return np.empty(0)
        return np.sum([*curves.values()], axis=0) if metric else averaged(curves, task)

    @cache  # noqa: B019
    def _resampled(self, task: str) -> tuple[dict[str, Floats], int]:
        """Return the scores [1 + b] of all runs of a task, and the number of examples."""
        of_task = (trainings(self.scores, of) for of in self.scores if of[1:] == ("dev", task))
        runs = list(dict.fromkeys(run[task] for of in of_task for run in of))
        paths = [self.files[run].with_name("predictions.parquet") for run in runs]
        read = read_predicted(paths, task)
        values, counts = np.unique(read.label, return_counts=True)
        always = np.full(len(read.ids), values[counts.argmax()])
        scores = resampled(task, np.vstack([read.prediction, always]), read.label)
        return dict(zip([*runs, MAJORITY], scores.T, strict=True)), len(read.ids)
