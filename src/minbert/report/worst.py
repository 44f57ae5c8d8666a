"""The dev examples that a paper's variants get most wrong, as rows of a table."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from minbert.report.material import Material
from minbert.report.predictions import Stage, StagePredictions, label_name
from minbert.spec.task import TASKS

WORST = 15
"""Examples of each task."""


class Example(NamedTuple):
    """One row; the page adds the sentences of its `id` (`predictions.read_texts`).

    `said` is what most runs predict, or their mean; `right` is how many of the `runs` are right.
    `more` is how many other examples of the task, without a row, have the same error.
    """

    id: str
    task: str
    label: str
    said: str
    error: str
    right: int
    runs: int
    more: int


def worst(material: Material, paper: str, found: Mapping[Stage, StagePredictions]) -> list[Example]:
    """Return the examples with the largest mean error over all runs of the paper, task by task.

    Tasks without texts, as from a bundle, have none: ids alone tell nothing.
    """
    of_task: dict[str, dict[str, StagePredictions]] = {}
    for of, by_seed in material.trained(paper):
        for score in by_seed.values():
            if one := found.get((score.key, of.measure)):
                of_task.setdefault(of.measure, {})[score.key] = one
    shown = [t for t in TASKS if t in of_task and material.job.need(f"examples/{t}").is_file()]
    return [each for task in shown for each in _worst(task, list(of_task[task].values()))]


def _worst(task: str, stages: Sequence[StagePredictions]) -> list[Example]:
    """Return a task's examples, the worst first; each run counts as much as any other."""
    runs = [one.seeds for one in stages]
    errors = np.average([one.error for one in stages], axis=0, weights=runs)
    right = np.sum([one.right for one in stages], axis=0)
    label, ids = stages[0].label, stages[0].ids
    chosen = np.lexsort((np.arange(len(errors)), -errors))[:WORST]
    rows = []
    for n in map(int, chosen):
        said = np.array([one.said[n] for one in stages])
        if TASKS[task].kind == "regression":
            most = f"{np.average(said, weights=runs):.2f}"
        else:
            most = label_name(task, int(np.bincount(said.astype(int), weights=runs).argmax()))
        alike = np.isclose(errors, errors[n])
        counts = (int(right[n]), sum(runs), int(alike.sum() - alike[chosen].sum()))
        rows.append(
            Example(ids[n], task, label_name(task, label[n]), most, f"{errors[n]:.2f}", *counts)
        )
    return rows
