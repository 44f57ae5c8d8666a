"""A paper's systems on dev: scores on the same resampled examples, and what their curves say.

A claim measures a number from the curves of each run, or its score. There are no examples to draw
again for such a number, so its error comes from the seeds alone, with their variance pooled over
rows as for scores (`statistics.steadied`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from minbert.data.parquet import read_file
from minbert.evaluate.bootstrap import RESAMPLES, Sample, combined, sample
from minbert.evaluate.predictions import read_predicted
from minbert.evaluate.reading import Of, read_scores
from minbert.evaluate.scoring import Floats, averaged
from minbert.evaluate.seeds import learned, shared_spreads
from minbert.evaluate.statistics import Spread, own_spread
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.task import TASKS

MAJORITY = "majority"
"""Among a task's runs: always the most frequent dev label."""

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


def by_epoch(histories: Mapping[str, Path], split: str, measure: str, metric: str = "") -> Floats:
    """Return a run's score by epoch, from its history by task; `measure` is a task or overall rule.

    Of another `metric` it is the mean over each epoch, and overall the tasks' sum. There is none if
    the tasks were not scored equally often.
    """
    curves = {}
    for task, path in histories.items():
        of = {"split": split, "task": task, "metric": metric or TASKS[task].metric}
        rows = read_file(path, ("epoch", "value"), of)
        epochs = rows.group_by("epoch").aggregate([("value", "mean")]).sort_by("epoch")
        curves[task] = np.asarray(epochs["value_mean"].to_numpy(), dtype=float)
    if len({len(curve) for curve in curves.values()}) > 1:
        return np.empty(0)
    if metric:
        return np.sum(list(curves.values()), axis=0)
    return averaged(curves, measure) if measure in RULES else curves[measure]


class Systems:
    """Those of a paper's `variants` that have scores on dev, by its score table `scores`.

    `runs` has a file beside the others of each run by KEY.SEED, `overall_tasks` are those of the
    overall score. A task's systems are resampled together. `curved` are the variants whose curves
    are compared; a `measure` is of these (`measured`), or "" for scores.
    """

    def __init__(
        self,
        paper: str,
        scores: Path,
        runs: Mapping[str, Path],
        variants: Iterable[str],
        overall_tasks: Sequence[str] = OVERALL_TASKS,
        curved: Collection[str] = (),
    ) -> None:
        self._overall = tuple(overall_tasks)
        self._files, self._curved = runs, curved
        self._resampled = cache(self._resample)
        self._spreads = cache(self._share)
        self._curves = cache(self._read)
        wanted = set(variants)
        self._scores = {
            of: by_seed
            for of, by_seed in read_scores(scores, paper).items()
            if of.split == "dev" and of.variant in wanted
        }

    def seeds(self, variant: str, task: str) -> list[int]:
        """Return the seeds for which a variant has scores, of all tasks for an overall rule."""
        return sorted(set.intersection(*(set(of) for of in self._runs(variant, task).values())))

    def learned(self, variant: str, task: str) -> bool:
        """Whether a variant has learned `task` (`seeds.learned`)."""
        return learned(self._scores, Of(variant, "dev", task), self._overall) is True

    def sample(self, variant: str, task: str, measure: str = "") -> Sample:
        """Return a variant's scores on `task`, or by an overall rule, over its seeds.

        Their spread is steadied by that of the other variants which have learned the task. Another
        `measure` than scores is the same for all draws of examples.
        """
        spread = self._spreads(task, measure).get(Of(variant, "dev", task))
        return self._own(variant, task, measure)._replace(spread=spread)

    def epochs(self, variant: str, task: str, measure: str) -> int:
        """Return after how many epochs each of a variant's runs was scored, on all tasks alike."""
        return min(len(curve) for run in self._curves(variant, task, measure) for curve in run)

    def majority(self, task: str) -> Sample:
        """Return the scores of always predicting the most frequent dev label."""
        return combined({each: self._of(each, [MAJORITY]) for each in self._tasks(task)}, task)

    def same(self, variant: str, other: str, task: str) -> bool:
        """Whether two variants are the same trained stages under two names."""
        one, two = (self._runs(name, task) for name in (variant, other))
        return all(set(one[each].values()) & set(two[each].values()) for each in one)

    def examples(self, task: str) -> int:
        """Return the number of dev examples; for an overall rule, of its tasks together."""
        return sum(self._resampled(each)[2] for each in self._tasks(task))

    def _file(self, run: str, name: str) -> Path:
        return self._files[run].with_name(f"{name}.parquet")

    def _tasks(self, task: str) -> tuple[str, ...]:
        return self._overall if task in RULES else (task,)

    def _runs(self, variant: str, task: str) -> dict[str, dict[int, str]]:
        """Return a variant's runs KEY.SEED by task and seed."""
        found = {t: self._scores.get(Of(variant, "dev", t), {}) for t in self._tasks(task)}
        return {t: {n: f"{score.key}.{n}" for n, score in of.items()} for t, of in found.items()}

    def _own(self, variant: str, task: str, measure: str) -> Sample:
        if measure:
            curves = self._curves(variant, task, measure)
            values = np.array([measured(measure, *run) for run in curves])
            return Sample(values, np.tile(values, (RESAMPLES, 1)))
        seeds = self.seeds(variant, task)
        runs = self._runs(variant, task)
        return combined(
            {t: self._of(t, [of[seed] for seed in seeds]) for t, of in runs.items()}, task
        )

    def _share(self, task: str, measure: str) -> dict[Of, Spread]:
        """Return the spread to be used of each variant that has learned `task`."""

        def own(of: Of) -> Spread | None:
            if of.measure != task or (measure and not self._has_curves(of.variant, task, measure)):
                return None
            one = self._own(of.variant, task, measure)
            return own_spread(one.values, one.draws)

        return shared_spreads(self._scores, own, self._overall)

    def _of(self, task: str, runs: Iterable[str]) -> Sample:
        places, scores, _ = self._resampled(task)
        at = [places[run] for run in runs]
        return Sample(scores.values[at], scores.draws[:, at])

    def _resample(self, task: str) -> tuple[dict[str, int], Sample, int]:
        """Return the places of a task's runs in scores on the same draws, these, and examples."""
        variants = {of.variant for of in self._scores}
        of_task = [self._runs(name, task)[task].values() for name in sorted(variants)]
        runs = list(dict.fromkeys(run for of in of_task for run in of))
        read = read_predicted([self._file(run, "predictions") for run in runs], task)
        values, counts = np.unique(read.label, return_counts=True)
        always = np.full(len(read.ids), values[counts.argmax()])
        scores = sample(task, np.vstack([read.prediction, always]), read.label)
        return {r: n for n, r in enumerate([*runs, MAJORITY])}, scores, len(read.ids)

    def _has_curves(self, variant: str, task: str, measure: str) -> bool:
        return variant in self._curved and self.epochs(variant, task, measure) >= LEAST[measure]

    def _read(self, variant: str, task: str, measure: str) -> list[tuple[Floats, Floats]]:
        """Return the curves on train and dev of a variant's runs."""
        found, runs = [], self._runs(variant, task)
        for seed in self.seeds(variant, task):
            histories = {each: self._file(of[seed], "history") for each, of in runs.items()}
            train = by_epoch(histories, "train", task, "loss" if measure == "loss" else "")
            found.append((train, by_epoch(histories, "dev", task)))
        return found
