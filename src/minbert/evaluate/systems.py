"""A paper's systems on dev: scores on the same resampled examples, and what their curves say."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minbert.evaluate.bootstrap import RESAMPLES, Sample, combined, sample
from minbert.evaluate.curves import LEAST, by_epoch, measured
from minbert.evaluate.predictions import read_predicted
from minbert.evaluate.reading import Of, read_scores
from minbert.evaluate.scoring import Floats
from minbert.evaluate.seeds import learned, shared_spreads
from minbert.evaluate.statistics import Spread, own_spread
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.task import TASKS

MAJORITY = "majority"
"""Among a task's runs: always the most frequent dev label."""


class _Resampled(NamedTuple):
    """A task's runs on the same examples: their places in `scores`, by KEY.SEED."""

    places: Mapping[str, int]
    scores: Sample
    examples: int

    def of(self, runs: Iterable[str]) -> Sample:
        at = [self.places[run] for run in runs]
        return Sample(self.scores.values[at], self.scores.draws[:, at])


class Systems:
    """Those of a paper's `variants` that have scores on dev, by its score table `scores`.

    `predictions` are the files by KEY.SEED, `overall_tasks` those of the overall score. A task's
    systems are resampled together. `histories` are the files of those runs whose curves are
    compared; a `measure` is of these (`curves.measured`), or "" for scores.
    """

    def __init__(
        self,
        paper: str,
        scores: Path,
        predictions: Mapping[str, Path],
        variants: Iterable[str],
        overall_tasks: Sequence[str] = OVERALL_TASKS,
        histories: Mapping[str, Path] = {},
    ) -> None:
        self._overall = tuple(overall_tasks)
        self._predictions, self._histories = predictions, histories
        self._resampled = cache(self._resample)
        self._spreads = cache(self._share)
        self._curve = cache(self._read)
        wanted = set(variants)
        self._scores = {
            of: by_seed
            for of, by_seed in read_scores(scores, paper).items()
            if of.split == "dev" and of.variant in wanted
        }
        self._files = {
            (of.measure, of.variant): {seed: f"{s.key}.{seed}" for seed, s in by_seed.items()}
            for of, by_seed in self._scores.items()
            if of.measure in TASKS
        }

    def seeds(self, variant: str, task: str) -> list[int]:
        """Return the seeds for which a variant has scores, of all tasks for an overall rule."""
        of_task = [set(self._files.get((each, variant), ())) for each in self._tasks(task)]
        return sorted(set.intersection(*of_task))

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
        parts = {each: self._resampled(each).of([MAJORITY]) for each in self._tasks(task)}
        return combined(parts, task)

    def same(self, variant: str, other: str, task: str) -> bool:
        """Whether two variants are the same trained stages under two names."""
        one, two = (
            [set(self._files.get((t, name), {}).values()) for t in self._tasks(task)]
            for name in (variant, other)
        )
        return all(ours & theirs for ours, theirs in zip(one, two, strict=True))

    def examples(self, task: str) -> int:
        """Return the number of dev examples; for an overall rule, of its tasks together."""
        return sum(self._resampled(each).examples for each in self._tasks(task))

    def _tasks(self, task: str) -> tuple[str, ...]:
        return self._overall if task in RULES else (task,)

    def _own(self, variant: str, task: str, measure: str) -> Sample:
        if measure:
            curves = self._curves(variant, task, measure)
            values = np.array([measured(measure, *run) for run in curves])
            return Sample(values, np.tile(values, (RESAMPLES, 1)))
        seeds = self.seeds(variant, task)
        runs = {each: self._files[each, variant] for each in self._tasks(task)}
        parts = {t: self._resampled(t).of(of[seed] for seed in seeds) for t, of in runs.items()}
        return combined(parts, task)

    def _share(self, task: str, measure: str) -> dict[Of, Spread]:
        """Return the spread to be used of each variant that has learned `task`."""

        def own(of: Of) -> Spread | None:
            if of.measure != task or (measure and not self._has_curves(of.variant, task, measure)):
                return None
            one = self._own(of.variant, task, measure)
            return own_spread(one.values, one.draws)

        return shared_spreads(self._scores, own, self._overall)

    def _resample(self, task: str) -> _Resampled:
        of_task = [files for (each, _), files in self._files.items() if each == task]
        runs = list(dict.fromkeys(run for of in of_task for run in of.values()))
        read = read_predicted([self._predictions[run] for run in runs], task)
        values, counts = np.unique(read.label, return_counts=True)
        always = np.full(len(read.ids), values[counts.argmax()])
        scores = sample(task, np.vstack([read.prediction, always]), read.label)
        return _Resampled({r: n for n, r in enumerate([*runs, MAJORITY])}, scores, len(read.ids))

    def _has_curves(self, variant: str, task: str, measure: str) -> bool:
        runs = [run for t in self._tasks(task) for run in self._files[t, variant].values()]
        known = self._histories.keys() >= set(runs)
        return known and self.epochs(variant, task, measure) >= LEAST[measure]

    def _curves(self, variant: str, task: str, measure: str) -> list[tuple[Floats, Floats]]:
        """Return the curves on train and dev of a variant's runs."""
        of_train = "loss" if measure == "loss" else ""
        return [
            (
                self._curve(variant, task, seed, "train", of_train),
                self._curve(variant, task, seed, "dev", ""),
            )
            for seed in self.seeds(variant, task)
        ]

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
