"""The dev examples that a paper's variants get most wrong, as rows of a table."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minbert.data.parquet import read_file
from minbert.evaluate.predictions import Predicted, read_predicted
from minbert.evaluate.scoring import Floats
from minbert.evaluate.text import one_line
from minbert.report.material import Material
from minbert.spec.task import TASKS

WORST = 15
"""Examples of each task."""

LONGEST = 300
"""Characters of a text that are shown; a review has thousands."""


class Example(NamedTuple):
    """One row, with the example's one or two texts.

    `said` is what most runs predict, or their mean; `right` is how many of the `runs` are right.
    """

    texts: Sequence[str]
    task: str
    label: str
    said: str
    error: str
    right: int
    runs: int


class OverRuns(NamedTuple):
    """What runs predict of each example: the commonest class or the mean value, the mean error, and
    how many runs are right.

    An error is 1 minus the probability of the label, or the distance from it; of classes without
    probabilities, as from a lean bundle, 1 if wrong. A value is right within a tenth of the labels'
    range (of STS half a point).
    """

    said: Floats
    error: Floats
    right: Floats


def worst(material: Material, paper: str) -> list[Example]:
    """Return the examples with the largest mean error over all runs of the paper, task by task.

    Tasks without texts, as from a bundle, have none: ids alone tell nothing.
    """
    files: dict[str, dict[Path, None]] = {}
    for of, by_seed in material.trained(paper):
        files.setdefault(of.measure, {}).update(dict.fromkeys(material.predictions(by_seed)))
    rows = []
    for task in (task for task in TASKS if task in files):
        if (examples := material.job.need(f"examples.{task}")).is_file():
            rows += _worst(task, read_predicted(files[task], task), examples)
    return rows


def over_runs(task: str, one: Predicted) -> OverRuns:
    """Return what runs predict of a task, example by example."""
    known = TASKS[task]
    error = _errors(known.kind, one).mean(axis=0)
    if known.kind == "regression":
        near = (known.high - known.low) / 10
        said, right = one.prediction.mean(axis=0), np.abs(one.prediction - one.label) <= near
    else:
        classes = range(round(known.low), round(known.high) + 1)
        counts = [(one.prediction == value).sum(axis=0) for value in classes]
        said, right = np.argmax(counts, axis=0), one.prediction == one.label
    return OverRuns(said.astype(float), error, right.sum(axis=0).astype(float))


def _errors(kind: str, one: Predicted) -> Floats:
    """Return the errors [runs, n]; of classes without probabilities 1 or 0."""
    if kind == "regression":
        return np.abs(one.prediction - one.label)
    if kind == "binary":
        return np.where(one.label > 0, 1 - one.scores[:, :, 0], one.scores[:, :, 0])
    if one.scores.shape[2] == 0:
        return np.asarray(one.prediction != one.label, dtype=float)
    true = one.label.astype(int)
    return np.asarray(1 - one.scores[:, np.arange(len(true)), true])


def _worst(task: str, one: Predicted, examples: Path) -> list[Example]:
    """Return a task's examples, the worst first; each run counts as much as any other."""
    said, error, right = over_runs(task, one)
    chosen = np.argsort(-error, kind="stable")[:WORST].tolist()
    wanted = {"id": [one.ids[n] for n in chosen]}
    table = read_file(examples, ("id", "sentence1", "sentence2"), wanted).to_pylist()
    texts = {row["id"]: [t for t in (row["sentence1"], row["sentence2"]) if t] for row in table}
    rows = []
    for n in chosen:
        counts = (int(right[n]), len(one.prediction))
        words = (_name(task, one.label[n]), _name(task, said[n], ".2f"), f"{error[n]:.2f}")
        rows.append(Example([*map(_short, texts[one.ids[n]])], task, *words, *counts))
    return rows


def _name(task: str, label: float, digits: str = "g") -> str:
    """Return the name of a class, or a number."""
    names = TASKS[task].names
    if TASKS[task].kind == "regression":
        return f"{label:{digits}}"
    return names[int(label)] if names else f"{label:g}"


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"
