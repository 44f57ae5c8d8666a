"""The systems that a paper's claims compare, with their scores on resampled examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

from minbert.common.errors import UserError
from minbert.evaluate.bootstrap import RESAMPLES, Floats, Sample, resampled_scores
from minbert.evaluate.reading import read_columns
from minbert.grid.tasks import TASKS
from minbert.scoring import OVERALL_TASKS, Rule, score_task


class _Run(NamedTuple):
    """The file of a run's predictions: KEY.SEED."""

    variant: str
    seed: int
    file: str


class _Scored(NamedTuple):
    """A task's systems on the same examples: `values` [c] and `draws` [b, c] of `files` [c]."""

    files: tuple[str, ...]
    values: Floats
    draws: Floats
    majority: Sample
    examples: int


class Systems:
    """The variants of one paper that have scores on dev.

    `scores` is the paper's table of `score_runs`, which says which stage predicts a variant's
    task; `predictions` are the files by KEY.SEED. Each task's systems are resampled together when
    one of them is first asked for.
    """

    def __init__(
        self,
        paper: str,
        scores: Path,
        predictions: Mapping[str, Path],
        variants: Iterable[str],
    ) -> None:
        self.paper = paper
        self._scores = scores
        self._predictions = predictions
        self._variants = set(variants)
        self._of_task = cache(self._resample)

    @cached_property
    def _runs(self) -> dict[str, list[_Run]]:
        columns = ("paper", "variant", "seed", "split", "task", "metric", "key")
        wanted = [("paper", "=", self.paper), ("split", "=", "dev")]
        found: dict[str, list[_Run]] = {task: [] for task in TASKS}
        for row in read_columns(self._scores, columns, wanted).to_pylist():
            task = TASKS.get(row["task"])
            if task and task.metric == row["metric"] and row["variant"] in self._variants:
                run = _Run(row["variant"], row["seed"], f"{row['key']}.{row['seed']}")
                found[task.name].append(run)
        return found

    def seeds(self, variant: str, task: str) -> list[int]:
        """Return the seeds that a variant has scores of; for an overall rule, of all its tasks."""
        of_task = [
            {run.seed for run in self._runs[each] if run.variant == variant}
            for each in self._tasks(task)
        ]
        return sorted(set.intersection(*of_task))

    def sample(self, variant: str, task: str) -> Sample:
        """Return a variant's scores on `task`, or by an overall rule, over its seeds."""
        seeds = self.seeds(variant, task)
        parts = []
        for each in self._tasks(task):
            scored = self._of_task(each)
            files = {run.seed: run.file for run in self._runs[each] if run.variant == variant}
            at = [scored.files.index(files[seed]) for seed in seeds]
            parts.append(Sample(scored.values[at], scored.draws[:, at]))
        return _combined(parts, task)

    def majority(self, task: str) -> Sample:
        """Return the scores of always predicting dev's most frequent label."""
        return _combined([self._of_task(each).majority for each in self._tasks(task)], task)

    def same(self, variant: str, other: str, task: str) -> bool:
        """Whether two variants are the same trained stages under two names."""
        files = [
            {run.file for run in self._runs[each] if run.variant == name}
            for each in self._tasks(task)
            for name in (variant, other)
        ]
        return files[::2] == files[1::2]

    def examples(self, task: str) -> int:
        """Return the number of dev examples; for an overall rule, of its tasks together."""
        return sum(self._of_task(each).examples for each in self._tasks(task))

    @staticmethod
    def _tasks(task: str) -> tuple[str, ...]:
        return OVERALL_TASKS if task in get_args(Rule) else (task,)

    def _resample(self, task: str) -> _Scored:
        files = tuple(dict.fromkeys(run.file for run in self._runs[task]))
        columns, labels = self._aligned(task, files)
        values, counts = np.unique(labels, return_counts=True)
        always = np.full((len(labels), 1), values[counts.argmax()])
        everyone = np.hstack([columns, always])
        scores = np.array([score_task(task, column, labels) for column in everyone.T])
        draws = resampled_scores(task, everyone, labels)
        majority = Sample(scores[-1:], draws[:, -1:])
        return _Scored(files, scores[:-1], draws[:, :-1], majority, len(labels))

    def _aligned(self, task: str, files: Iterable[str]) -> tuple[Floats, Floats]:
        """Return the files' predictions [n, c] of a task's dev split, and its labels [n]."""
        columns: list[Floats] = []
        first = None
        for file in files:
            path = self._predictions[file]
            wanted = [("task", "=", task), ("split", "=", "dev")]
            table = read_columns(path, ("id", "task", "split", "prediction", "label"), wanted)
            table = table.sort_by("id")
            asked = table.select(["id", "label"])
            if first is None:
                first = asked
            elif not asked.equals(first):
                raise UserError(
                    f"{path}: task '{task}': its dev examples are not those of the paper's other "
                    "runs; train the run again"
                )
            columns.append(table["prediction"].to_numpy().astype(float))
        assert first is not None, f"{self.paper}: no run has {task}"
        return np.column_stack(columns), first["label"].to_numpy().astype(float)


def _combined(parts: list[Sample], task: str) -> Sample:
    """Return the one part, or the mean of the three by an overall rule (`scoring.overall`)."""
    if task in TASKS:
        return parts[0]
    if task == "normalised":
        at = OVERALL_TASKS.index("sts")
        parts = [
            Sample((p.values + 1) / 2, (p.draws + 1) / 2) if i == at else p
            for i, p in enumerate(parts)
        ]
    values = np.mean([part.values for part in parts], axis=0)
    return Sample(values, np.mean([part.draws for part in parts], axis=0))


def constant(score: float) -> Sample:
    """Return a score that is given, and known without error."""
    return Sample(np.array([score]), np.full((RESAMPLES, 1), score))
