"""Rows that train nothing: the best of other variants, chosen by their dev scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Literal, NamedTuple

from minbert.grid.tasks import TASKS
from minbert.scoring import overall


class TaskScore(NamedTuple):
    """A task's metrics on one split, and the key of the stage that predicted it.

    `last` is the value of the task's own metric on dev after the stage's last epoch; None where it
    was not measured (test, and tasks that are only carried along).
    """

    key: str
    metrics: Mapping[str, float]
    last: float | None = None


class RunScores(NamedTuple):
    """One run's scores, {split: {task: score}}; `key` is that of its last stage.

    A task whose labels are not public in a split is not there.
    """

    key: str
    splits: Mapping[str, Mapping[str, TaskScore]]

    def main(self, split: str) -> dict[str, float]:
        """Return {task: value of the task's own metric}."""
        return {
            task: score.metrics[TASKS[task].metric] for task, score in self.splits[split].items()
        }


Seeds = Mapping[int, RunScores]
"""The runs of one variant by seed: those that have scores."""


def best_of(
    candidates: Mapping[str, Seeds], by: Literal["overall", "task"], rule: str
) -> dict[int, RunScores]:
    """Return the runs of the best of `candidates`, by seed; none if no candidate has scores.

    By `overall`, the candidate with the highest mean dev score under `rule` over those of its
    seeds that have scores. By `task`, the same for each task apart by the task's own metric: the
    tasks of one run may then come from several candidates, and no stage is its last (key "").
    The first listed wins a tie. Test scores are carried along and decide nothing.
    """
    if by == "overall":
        chosen = highest(
            {
                name: [
                    s for run in seeds.values() if (s := overall(run.main("dev"), rule)) is not None
                ]
                for name, seeds in candidates.items()
            }
        )
        return {} if chosen is None else dict(candidates[chosen])
    return _best_of_each_task(candidates)


def _best_of_each_task(candidates: Mapping[str, Seeds]) -> dict[int, RunScores]:
    chosen: dict[str, Seeds] = {}
    for task in TASKS:
        values = {
            name: [main[task] for run in seeds.values() if task in (main := run.main("dev"))]
            for name, seeds in candidates.items()
        }
        name = highest(values)
        if name is not None:
            chosen[task] = candidates[name]
    found = {}
    for seed in sorted({seed for seeds in chosen.values() for seed in seeds}):
        runs = {task: seeds[seed] for task, seeds in chosen.items() if seed in seeds}
        found[seed] = RunScores(
            "",
            {
                split: {
                    t: run.splits[split][t] for t, run in runs.items() if t in run.splits[split]
                }
                for split in ("dev", "test")
            },
        )
    return found


def highest(values: Mapping[str, Iterable[float]]) -> str | None:
    """Return the name with the highest mean, the first of a tie; None if there is no value.

    Names without values are left out. Means are exact sums over counts, so that the same values
    in another order tie.
    """
    means = {name: fmean(found) for name, of in values.items() if (found := list(of))}
    return max(means, key=lambda name: means[name]) if means else None
