"""What runs recorded over their epochs: read from histories, as curves over seeds."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minbert.data.parquet import read_file
from minbert.figures.inputs import Inputs, OfSeeds, Values, missing_notes, present
from minbert.spec.task import TASKS

_COLUMNS = ("step", "epoch", "split", "task", "metric", "value")


class Of(NamedTuple):
    """What a curve is of."""

    split: str
    task: str
    metric: str


class History(NamedTuple):
    """The values of one run: `rows` by step; `length` is the steps of an epoch."""

    path: Path
    rows: dict[Of, dict[int, float]]
    length: float


class Curve(NamedTuple):
    """One variant: `values` [seeds, points] at `epochs` [points]."""

    epochs: Values
    values: Values


Runs = Mapping[str, Sequence[History]]
"""The runs of each variant, by seed."""


def read_history(path: Path) -> History:
    """Return the contents of a `history.parquet`."""
    table = read_file(path, _COLUMNS)
    step, epoch, split, *about = (table[name].to_numpy() for name in _COLUMNS)
    rows: dict[Of, dict[int, float]] = {}
    for at, *of, value in zip(*(column.tolist() for column in (step, split, *about)), strict=True):
        rows.setdefault(Of(*of), {})[at] = value
    # Dev is scored at the end of each epoch, so its first step is the exact length of an epoch;
    # training rows may be logged only every few steps.
    dev, train = step[(split == "dev") & (step > 0)], split == "train"
    length = dev.min() if len(dev) else step[train].max() / len(np.unique(epoch[train]))
    return History(path, rows, float(length))


def read_histories(of_seeds: OfSeeds) -> list[History]:
    """Return the histories of the seeds whose files exist, in ascending order of seed."""
    return [read_history(path) for path in present(of_seeds).values()]


def last_stages(inputs: Inputs) -> tuple[dict[str, list[History]], list[str]]:
    """Return the runs of each variant's last stage, if it has any, and notes on missing runs."""
    files = {
        name: inputs.histories.get(name, {}).get(inputs.about["stages"][name][-1]["name"], {})
        for name in inputs.variants
    }
    read = {name: read_histories(of_seeds) for name, of_seeds in files.items()}
    found = {name: runs for name, runs in read.items() if runs}
    return found, missing_notes(inputs.variants, files, inputs.failed)


def dev_measures(inputs: Inputs, found: Runs) -> list[tuple[str, str]]:
    """Return (task, metric) of the dev scores that the runs have: overall first, by the rule."""
    measures = [("overall", str(inputs.about["rule"]))]
    measures += [(task, about.metric) for task, about in TASKS.items()]
    every = [run for runs in found.values() for run in runs]
    return [m for m in measures if any(Of("dev", *m) in run.rows for run in every)]


def curve_of(histories: Sequence[History], of: Of) -> Curve | None:
    """Return the seeds' values at the steps that all of them have; None if there are none."""
    found = [history.rows.get(of, {}) for history in histories]
    steps = sorted(set.intersection(*map(set, found))) if found else []
    if not steps:
        return None
    values = np.array([[rows[step] for step in steps] for rows in found])
    return Curve(np.array(steps) / histories[0].length, values)


def longest(histories: Iterable[History]) -> float:
    """Return the number of epochs of the longest run."""
    return max(max(steps) / run.length for run in histories for steps in run.rows.values())


def by_epoch(curve: Curve) -> Curve:
    """Return the mean of each epoch."""
    ends = np.ceil(curve.epochs - 1e-9)
    epochs = np.unique(ends)
    means = [curve.values[:, ends == end].mean(axis=1) for end in epochs]
    return Curve(epochs, np.stack(means, axis=1))


def running_mean(epochs: Values, values: Values, window: float) -> Values:
    """Return each row of `values` [rows, points] averaged over `window` epochs around each point.

    At both ends the centred window is cut off, so that the last point is a mean too.
    """
    slack = 1e-9 * max(1.0, float(epochs[-1]))  # include points on the edge, rounded or not
    first = np.searchsorted(epochs, epochs - window / 2 - slack)
    last = np.searchsorted(epochs, epochs + window / 2 + slack)
    total = np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))
    averaged = (total[:, last] - total[:, first]) / (last - first)
    return np.where(last - first == 1, values, averaged)
