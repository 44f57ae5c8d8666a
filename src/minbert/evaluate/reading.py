"""What runs predict, aligned example by example; the score table; and words for scores."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.scoring import Floats
from minbert.spec.task import TASKS

LEVEL = 0.05
"""Of all tests."""

LEAST_GAIN = 0.05
"""The `gain` of a run that has learned: of thousands of examples, a score may be above its floor
beyond doubt, and hardly at all."""


def gain(score: float, floor: float) -> float:
    """Return which share a score has of what separates its floor from a perfect one.

    Of a correlation, whose floor is 0, it is the share of the variance that it explains.
    """
    return (score - floor) / max(1 - floor, 1e-9) if floor else score * abs(score)


SCHEMA = pa.schema(
    {
        "paper": "string",
        "variant": "string",
        "seed": "int64",
        "split": "string",
        "task": "string",
        "metric": "string",
        "value": "float64",
        "key": "string",
        "last": "float64",
        "floor": "float64",
        "p_floor": "float64",
        "constant": "bool",
        "error": "float64",
    }
)
"""The score table's columns. `score.make` says what is in them."""


METRIC_TITLES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "f1": "F1",
    "matthews": "Matthews r",
    "pearson": "Pearson r",
    "spearman": "Spearman rho",
}


def score_title(task: str) -> str:
    """Return what a task's own score is called: "SST accuracy"."""
    return f"{TASKS[task].title} {METRIC_TITLES[TASKS[task].metric]}"


GUESS = "the most frequent class; r = 0"
"""The floor of an accuracy and of a correlation, as figures and the report word it."""

FAVOURED = {
    "dev": "Dev was also used to choose the epoch of every run, which favours all of them",
    "half": "One half of dev chose the epoch of every run; scores are on the other half",
    "both": "For some runs, one half of dev chose the epoch and scores are on the other half; for "
    "the others, all of dev served both purposes, which favours them",
}
"""What chose the epochs, by what the stages' `selection_split` says, or `both`."""

DELTA_M = "delta_m"
"""The name of the gain over single tasks (`score.delta_m`) as a metric of the task `overall`."""


class Of(NamedTuple):
    """What a score is of.

    `measure` is a task, by its own metric, a rule of the overall score, or `DELTA_M`.
    """

    variant: str
    split: str
    measure: str


class Score(NamedTuple):
    """A score, the key of the stage that it comes from, and what the score table says beside it.

    The overall score of a row that is the best of other variants has the key "". `last` is
    the score after the last epoch, None if it was not measured. `floor` is the score's floor;
    `p_floor` and `constant` are those of a task's run (`score.against_floor`), None for others.
    `error` is the standard error over examples, None for the gain over single tasks.
    """

    value: float
    key: str
    last: float | None = None
    floor: float | None = None
    p_floor: float | None = None
    constant: bool | None = None
    error: float | None = None

    @property
    def above(self) -> bool:
        """Whether the score is above its floor at the 5 % level, by however little."""
        return self.p_floor is not None and self.p_floor <= LEVEL

    @property
    def learned(self) -> bool | None:
        """Whether the score is clearly above its floor: at the 5 % level, and by `LEAST_GAIN`.

        None if that is not tested.
        """
        if self.p_floor is None:
            return None
        return self.above and gain(self.value, self.floor or 0.0) >= LEAST_GAIN


Scores = dict[Of, dict[int, Score]]
"""Scores by seed."""


def read_scores(path: Path, paper: str) -> Scores:
    """Return the scores of `paper` from the score table at `path`, in the order of the table.

    Of a task there is the score by its own metric alone.
    """
    found: Scores = {}
    for row in read_file(path, SCHEMA.names, {"paper": paper}).to_pylist():
        whole, metric = row["task"] == "overall", row["metric"]
        if whole or metric == TASKS[row["task"]].metric:
            of = Of(row["variant"], row["split"], metric if whole else row["task"])
            score = Score(*(row[name] for name in Score._fields))
            found.setdefault(of, {})[row["seed"]] = score
    return found


class Predicted(NamedTuple):
    """The labelled examples of dev: `ids` [n], `label` [n], and what runs predict of them.

    `prediction` is [runs, n]; `scores` [runs, n, outputs] are probabilities of the classes, or of
    class 1, or the value. There are no outputs if a run lacks those of classes, as from a lean
    bundle.
    """

    ids: list[str]
    label: Floats
    prediction: Floats
    scores: Floats

    def split(self, counts: Sequence[int]) -> list["Predicted"]:
        """Return the first so many runs, the next so many, and so on."""
        ends = pairwise(np.cumsum([0, *counts]))
        return [
            self._replace(prediction=self.prediction[a:b], scores=self.scores[a:b]) for a, b in ends
        ]


def read_predicted(paths: Iterable[Path], task: str) -> Predicted:
    """Return what the runs whose files are `paths` predict of the labelled examples of dev.

    Examples are in the order of their ids. If a half of dev chose the epochs of some runs, examples
    are those of the other half. Raises `UserError` for runs of different examples.
    """
    files = list(paths)
    columns, rows = ("id", "prediction", "scores", "label"), {"task": task, "split": "dev"}
    labelled = pc.field("label").is_valid()
    tables = [read_file(path, columns, rows).filter(labelled).sort_by("id") for path in files]
    shared = min(tables, key=len).select(["id", "label"])
    half = pc.field("id").isin(shared["id"].combine_chunks())
    cut = [table if len(table) == len(shared) else table.filter(half) for table in tables]
    for path, table in zip(files, cut, strict=True):
        if not table.select(["id", "label"]).equals(shared):
            raise UserError(
                f"{path}: its dev examples of '{task}' are not those of the other runs; train it "
                "again, on the same data"
            )
    scores = [np.asarray(pc.list_flatten(table["scores"]), float) for table in cut]
    sides = [of.reshape(len(shared), -1) for of in scores]
    outputs = min(of.shape[1] for of in sides)  # 0 with a run from a lean bundle
    return Predicted(
        shared["id"].to_pylist(),
        np.asarray(shared["label"], float),
        np.array([table["prediction"] for table in cut], float),
        np.array([of[:, :outputs] for of in sides]),
    )


class OverRuns(NamedTuple):
    """What runs predict: the commonest class or mean value, the mean error, the share right.

    An error is 1 minus the probability of the label, or the distance from it; of classes without
    probabilities, as from a lean bundle, 1 if wrong. A value is right within a tenth of the labels'
    range (of STS half a point).
    """

    said: Floats
    error: Floats
    right: Floats


def over_runs(task: str, one: Predicted) -> OverRuns:
    """Return what runs predict of a task, example by example."""
    known, right = TASKS[task], one.prediction == one.label
    if known.kind == "regression":
        said, error = one.prediction.mean(axis=0), np.abs(one.prediction - one.label)
        right = error <= (known.high - known.low) / 10
    else:
        classes = range(round(known.high) + 1)
        said = np.argmax([(one.prediction == of).sum(axis=0) for of in classes], axis=0)
        if not one.scores.size:
            error = ~right
        elif known.kind == "binary":
            error = np.abs(one.scores[:, :, 0] - one.label)
        else:
            error = 1 - one.scores[:, range(len(one.label)), one.label.astype(int)]
    return OverRuns(said.astype(float), error.mean(axis=0), right.mean(axis=0))
