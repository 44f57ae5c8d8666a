"""What several runs predict of a task's examples, aligned example by example."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.scoring import Floats


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
        ends = np.cumsum(counts)[:-1]
        parts = zip(np.split(self.prediction, ends), np.split(self.scores, ends), strict=True)
        return [self._replace(prediction=said, scores=scores) for said, scores in parts]


def read_predicted(paths: Iterable[Path], task: str) -> Predicted:
    """Return what the runs whose files are `paths` predict of the labelled examples of dev.

    Examples are in the order of their ids. If a half of dev chose the epochs of some runs, examples
    are those of the other half. Raises `UserError` for runs of different examples.
    """
    files = list(paths)
    tables = [_read(path, task) for path in files]
    fewest = min(range(len(files)), key=lambda run: len(tables[run]))
    shared = tables[fewest].select(["id", "label"])
    ids = shared["id"].to_pylist()
    half = pc.field("id").isin(ids)
    cut = [of if len(of) == len(ids) else of.filter(half) for of in tables]
    for path, table in zip(files, cut, strict=True):
        if not table.select(["id", "label"]).equals(shared):
            raise UserError(
                f"{path}: its dev examples of '{task}' are not those of {files[fewest]}; train it "
                "again, on the same data"
            )
    scores = [np.asarray(pc.list_flatten(table["scores"]), float) for table in cut]
    sides = [of.reshape(len(ids), -1) for of in scores]
    outputs = min(of.shape[1] for of in sides)  # 0 with a run from a lean bundle
    return Predicted(
        ids,
        np.asarray(shared["label"], float),
        np.array([table["prediction"] for table in cut], float),
        np.array([of[:, :outputs] for of in sides]),
    )


def _read(path: Path, task: str) -> pa.Table:
    columns = ("id", "prediction", "scores", "label")
    table = read_file(path, columns, {"task": task, "split": "dev"})
    return table.filter(pc.field("label").is_valid()).sort_by("id")
