"""What each trained stage predicts of a task's dev examples, over its seeds."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from minbert.data.parquet import read_file
from minbert.evaluate.text import one_line
from minbert.figures.inputs import Values
from minbert.figures.predicted import Predicted, read_predicted
from minbert.report.material import Material
from minbert.spec.task import TASKS

LONGEST = 300
"""Characters of a text that are shown; a review has thousands."""


class Said(NamedTuple):
    """The predictions of a stage over its seeds, example by example.

    `said` is the commonest class, or the mean value; `error` is 1 minus the probability of the
    label, or the distance from it. `right` counts the seeds that predict the label; a value does
    within half a point. `confusion` counts examples of all seeds, [label, prediction], values
    rounded to whole points.
    """

    seeds: int
    ids: list[str]
    label: Values
    said: Values
    error: Values
    right: Values
    confusion: list[list[int]]


Stage = tuple[str, str]
"""The training key and the task."""


def read_said(material: Material) -> dict[Stage, Said]:
    """Read what is predicted on dev, for each task, by the stages whose scores are shown.

    Stages without a finished run are left out.
    """
    stages: dict[Stage, None] = {}
    for paper in material.papers:
        for of, by_seed in material.trained(paper):
            stages |= {(score.key, of.measure): None for score in by_seed.values()}

    def read(stage: Stage) -> Predicted | None:
        return read_predicted(material.seeds("predictions", stage[0]), stage[1])

    with ThreadPoolExecutor(material.job.threads) as pool:
        found = zip(stages, pool.map(read, stages), strict=True)
        return {stage: _said(stage[1], one) for stage, one in found if one}


def _said(task: str, one: Predicted) -> Said:
    kind, low, high = TASKS[task].kind, round(TASKS[task].low), round(TASKS[task].high)
    error = _errors(kind, one).mean(axis=0)
    if kind == "regression":
        said, right = one.prediction.mean(axis=0), np.abs(one.prediction - one.label) <= 0.5
    else:
        counts = [(one.prediction == value).sum(axis=0) for value in range(low, high + 1)]
        said, right = np.argmax(counts, axis=0) + low, one.prediction == one.label
    points = np.clip(np.rint(one.prediction), low, high).astype(int) - low
    true = np.broadcast_to(np.rint(one.label).astype(int) - low, points.shape)
    confusion = np.zeros((high - low + 1, high - low + 1), dtype=int)
    np.add.at(confusion, (true.ravel(), points.ravel()), 1)
    about = (said.astype(float), error, right.sum(axis=0).astype(float), confusion.tolist())
    return Said(len(one.seeds), one.ids, one.label, *about)


def _errors(kind: str, one: Predicted) -> Values:
    """Return the errors [seeds, n]."""
    if kind == "regression":
        return np.abs(one.prediction - one.label)
    if kind == "binary":
        return np.where(one.label > 0, 1 - one.scores[:, :, 0], one.scores[:, :, 0])
    true = one.label.astype(int)
    return np.asarray(1 - one.scores[:, np.arange(len(true)), true])


Texts = dict[tuple[str, str], list[str]]
"""The sentences of examples, by task and id."""


def read_texts(material: Material, wanted: Mapping[str, set[str]]) -> Texts:
    """Return the texts of examples {task: ids}, each on one line and not too long.

    An example that is not in its table any more is left out.
    """
    found: Texts = {}
    for task, ids in wanted.items():
        path = material.job.need(f"examples/{task}")
        if path.is_file():
            columns = ("id", "sentence1", "sentence2")
            rows = read_file(path, columns, [("id", "in", sorted(ids))]).to_pylist()
            for row in rows:
                texts = (row["sentence1"], row["sentence2"])
                found[task, row["id"]] = [_short(text) for text in texts if text]
    return found


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"
