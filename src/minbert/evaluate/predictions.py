"""What several runs predict of a task's examples, aligned example by example."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.scoring import Floats

_COLUMNS = ("id", "prediction", "scores", "label")


class Predicted(NamedTuple):
    """The labelled examples of dev: `ids` [n], `label` [n]; `prediction` [runs, n], `scores`
    [runs, n, outputs]: probabilities of the classes, or of class 1, or the value. There are no
    outputs if a run lacks those of classes, as from a lean bundle."""

    ids: list[str]
    label: Floats
    prediction: Floats
    scores: Floats

    def of(self, ids: Collection[str]) -> "Predicted":
        """Return what is predicted of the examples `ids`."""
        kept = [n for n, name in enumerate(self.ids) if name in ids]
        found = (self.label[kept], self.prediction[:, kept], self.scores[:, kept])
        return Predicted([self.ids[n] for n in kept], *found)


def read_predicted(paths: Iterable[Path], task: str) -> Predicted:
    """Return what the runs whose files are `paths` predict of the labelled examples of dev.

    Examples are in the order of their ids. If a half of dev chose the epochs of some runs, examples
    are those of the other half. Raises `UserError` for runs of different examples.
    """
    runs = {str(path): _read(path, task) for path in paths}
    cut = aligned(runs, f"dev examples of '{task}'")
    outputs = min(one.scores.shape[2] for one in cut)  # 0 with a run from a lean bundle
    prediction = np.concatenate([one.prediction for one in cut])
    scores = np.concatenate([one.scores[:, :, :outputs] for one in cut])
    return Predicted(cut[0].ids, cut[0].label, prediction, scores)


def aligned(found: Mapping[str, Predicted], what: str) -> list[Predicted]:
    """Return the same examples of each of `found`: those of the one that has fewest.

    Runs whose epoch a half of dev chose are scored on the other half, others on all of dev. Raises
    `UserError` with a name in `found` if others lack some of these, or if labels differ.
    """
    fewest = min(found, key=lambda name: len(found[name].ids))
    first = found[fewest]
    shared = set(first.ids)
    cut = {n: one if len(one.ids) == len(shared) else one.of(shared) for n, one in found.items()}
    for name, one in cut.items():
        if one.ids != first.ids or not np.array_equal(one.label, first.label):
            raise UserError(
                f"{name}: its {what} are not those of {fewest}; train it again, on the same data"
            )
    return list(cut.values())


def _read(path: Path, task: str) -> Predicted:
    table = read_file(path, _COLUMNS, {"task": task, "split": "dev"})
    table = table.filter(pc.is_valid(table["label"])).sort_by("id")
    outputs = table["scores"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    label, prediction = (table[name].to_numpy().astype(float) for name in ("label", "prediction"))
    shape = (1, len(label), len(outputs) // max(1, len(label)))
    scores = np.asarray(outputs, dtype=float).reshape(shape)
    return Predicted(table["id"].to_pylist(), label, prediction[None], scores)
