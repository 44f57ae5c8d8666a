"""What each trained stage predicts of a task's dev examples, over its seeds."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from minbert.data.parquet import read_file
from minbert.evaluate.predictions import Predicted
from minbert.evaluate.text import one_line
from minbert.figures.inputs import Values
from minbert.figures.predicted import read_predicted
from minbert.report.material import Material
from minbert.spec.task import TASKS

LONGEST = 300
"""Characters of a text that are shown; a review has thousands."""


class StagePredictions(NamedTuple):
    """The predictions of a stage over its seeds, example by example.

    `said` is the commonest class, or the mean value; `error` is 1 minus the probability of the
    label, or the distance from it; of classes without probabilities, as from a lean bundle, 1 if
    wrong. `right` counts the seeds that predict the label; a value does within a tenth of the
    labels' range (of STS half a point).
    """

    seeds: int
    ids: list[str]
    label: Values
    said: Values
    error: Values
    right: Values


def label_name(task: str, label: float) -> str:
    """Return the name of a class, or a number."""
    names = TASKS[task].names
    return names[int(label)] if names else f"{label:g}"


Stage = tuple[str, str]
"""The training key and the task."""


def read_said(material: Material) -> dict[Stage, StagePredictions]:
    """Read what is predicted on dev, for each task, by the stages whose scores are shown.

    Stages without a finished run are left out. Of each task there are the examples that all stages
    predict: if a half of dev chose the epochs of some, these are of the other half.
    """
    stages: dict[Stage, None] = {}
    for paper in material.papers:
        for of, by_seed in material.trained(paper):
            stages |= {(score.key, of.measure): None for score in by_seed.values()}

    def read(stage: Stage) -> Predicted | None:
        return read_predicted(material.predictions(stage[0]), stage[1])

    with ThreadPoolExecutor(material.job.threads) as pool:
        found = zip(stages, pool.map(read, stages), strict=True)
        said = {stage: over_seeds(stage[1], one) for stage, one in found if one}
    shared: dict[str, set[str]] = {}
    for (_, task), each in said.items():
        shared[task] = shared.get(task, set(each.ids)).intersection(each.ids)
    return {stage: _only(each, shared[stage[1]]) for stage, each in said.items()}


def _only(of: StagePredictions, ids: set[str]) -> StagePredictions:
    """Return what is said of the examples `ids`."""
    kept = [n for n, name in enumerate(of.ids) if name in ids]
    found = (of.label[kept], of.said[kept], of.error[kept], of.right[kept])
    return StagePredictions(of.seeds, [of.ids[n] for n in kept], *found)


def over_seeds(task: str, one: Predicted) -> StagePredictions:
    """Return what the seeds of one stage predict of a task, example by example."""
    known = TASKS[task]
    error = _errors(known.kind, one).mean(axis=0)
    if known.kind == "regression":
        near = (known.high - known.low) / 10
        said, right = one.prediction.mean(axis=0), np.abs(one.prediction - one.label) <= near
    else:
        classes = range(round(known.low), round(known.high) + 1)
        counts = [(one.prediction == value).sum(axis=0) for value in classes]
        said, right = np.argmax(counts, axis=0), one.prediction == one.label
    about = (said.astype(float), error, right.sum(axis=0).astype(float))
    return StagePredictions(len(one.prediction), one.ids, one.label, *about)


def _errors(kind: str, one: Predicted) -> Values:
    """Return the errors [seeds, n]; of classes without probabilities 1 or 0."""
    if kind == "regression":
        return np.abs(one.prediction - one.label)
    if kind == "binary":
        return np.where(one.label > 0, 1 - one.scores[:, :, 0], one.scores[:, :, 0])
    if one.scores.shape[2] == 0:
        return np.asarray(one.prediction != one.label, dtype=float)
    true = one.label.astype(int)
    return np.asarray(1 - one.scores[:, np.arange(len(true)), true])


Texts = dict[tuple[str, str], list[str]]
"""The sentences of examples, by task and id."""


def read_texts(material: Material, wanted: Mapping[str, set[str]]) -> Texts:
    """Return the texts of examples {task: ids}, each on one line and not too long."""
    found: Texts = {}
    for task, ids in wanted.items():
        path = material.job.need(f"examples/{task}")
        columns = ("id", "sentence1", "sentence2")
        for row in read_file(path, columns, {"id": sorted(ids)}).to_pylist():
            texts = (row["sentence1"], row["sentence2"])
            found[task, row["id"]] = [_short(text) for text in texts if text]
    return found


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"
