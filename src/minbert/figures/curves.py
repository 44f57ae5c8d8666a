"""Curves over epochs: read from the histories of runs, averaged over seeds, and drawn."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.figures import style
from minbert.figures.inputs import Inputs, OfSeeds, Values, mean_of, missing_notes, present
from minbert.spec.task import TASKS

_POINTS = 400  # of a line at most: more would only make the PDF large
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


def read_history(path: Path) -> History:
    """Return the contents of a `history.parquet`; one without any row raises `UserError`."""
    table = read_file(path, _COLUMNS)
    if table.num_rows == 0:
        raise UserError(f"{path}: holds no rows; delete it and train the stage again")
    rows: dict[Of, dict[int, float]] = {}
    columns = (table[name].to_pylist() for name in _COLUMNS)
    scored, steps, epochs = [], [], set()
    for step, epoch, split, task, metric, value in zip(*columns, strict=True):
        rows.setdefault(Of(split, task, metric), {})[step] = value
        # Dev is scored at the end of each epoch, so its first step is the exact length of an
        # epoch; training rows may be logged only every few steps.
        if split == "dev" and step > 0:
            scored.append(step)
        if split == "train":
            steps.append(step)
            epochs.add(epoch)
    length = min(scored) if scored else max(steps) / len(epochs)
    return History(path, rows, float(length))


def read_histories(of_seeds: OfSeeds) -> list[History]:
    """Return the histories of the seeds whose files exist, in ascending order of seed."""
    return [read_history(path) for path in present(of_seeds).values()]


def histories_of(
    inputs: Inputs, variants: Mapping[str, str]
) -> tuple[dict[str, list[History]], list[str]]:
    """Return the histories of the variants that have any, and the notes on missing runs."""
    read = {name: read_histories(inputs.histories.get(name, {})) for name in variants}
    found = {name: runs for name, runs in read.items() if runs}
    return found, missing_notes(variants, inputs.histories, inputs.failed)


def dev_measures(inputs: Inputs, runs: Sequence[History]) -> list[tuple[str, str]]:
    """Return (task, metric) of the dev scores that the runs have: overall first, by the rule."""
    measures = [("overall", rule) for rule in inputs.facts["rules"].values()]
    measures += [(task, about.metric) for task, about in TASKS.items()]
    return [m for m in measures if any(Of("dev", *m) in run.rows for run in runs)]


def curve_of(histories: Sequence[History], of: Of) -> Curve | None:
    """Return the seeds' values at the steps that all of them have; None if no run has any.

    Seeds without a step in common raise `UserError`.
    """
    if not any(of in history.rows for history in histories):
        return None
    steps = sorted(set.intersection(*(set(h.rows.get(of, {})) for h in histories)))
    if not steps:
        raise UserError(
            f"{histories[0].path} and the histories of the other seeds have no step in common; "
            "they are of different settings: train the variant's seeds again"
        )
    values = np.array([[history.rows[of][step] for step in steps] for history in histories])
    return Curve(np.array(steps) / histories[0].length, values)


def draw_curve(
    axes: Axes,
    curve: Curve | None,
    look: style.Look,
    window: float = 0.0,
    faint: bool = True,
    label: str = "",
    band: bool = True,
    **more: Any,
) -> None:
    """Draw mean and `band` over seeds, smoothed over `window` epochs, and `faint` the raw mean.

    `more` says how the line of the mean looks. Draws nothing for None.
    """
    if curve is None:
        return
    smooth = running_mean(curve.epochs, curve.values, window)
    if faint and is_smoothed(curve, window):
        raw = curve.values.mean(axis=0)
        axes.plot(curve.epochs, raw, color=look.color, linewidth=0.4, alpha=0.25, zorder=1)
    shown = np.unique(np.linspace(0, len(curve.epochs) - 1, _POINTS).round().astype(int))
    epochs, smooth = curve.epochs[shown], smooth[:, shown]
    if band and len(smooth) > 1:
        low, high = smooth.min(axis=0), smooth.max(axis=0)
        axes.fill_between(epochs, low, high, color=look.color, alpha=0.2, linewidth=0, zorder=2)
    every = max(1, len(shown) // 8)
    mean = smooth.mean(axis=0)
    about: dict[str, Any] = {**look._asdict(), "markevery": every, "label": label, "zorder": 3}
    # Not clipped: the markers of the first and last epoch lie on the axes' edges.
    axes.plot(epochs, mean, **{**about, **more}, clip_on=False)


def is_smoothed(curve: Curve, window: float) -> bool:
    """Return whether the window holds more than the point itself somewhere."""
    return len(curve.epochs) > 2 and bool(window / 2 >= np.diff(curve.epochs).min())


def running_mean(epochs: Values, values: Values, window: float) -> Values:
    """Return each row of `values` [rows, points] averaged over `window` epochs around each point.

    At both ends the centred window is cut off, so that the last point is a mean too.
    """
    slack = 1e-9 * max(1.0, float(epochs[-1]))  # include points on the edge, rounded or not
    first = np.searchsorted(epochs, epochs - window / 2 - slack)
    last = np.searchsorted(epochs, epochs + window / 2 + slack)
    total = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    averaged = (total[:, last] - total[:, first]) / (last - first)
    return np.where(last - first == 1, values, averaged)


def lines_note(counts: Iterable[int], smoothed: str = "") -> str:
    """Return the note on lines and bands over so many seeds."""
    line = mean_of(counts)
    band = "" if line == "1 seed" else " Bands: smallest to largest seed."
    return f"Lines: {line}{smoothed}.{band}"


def smoothed_note(lines: Sequence[Curve], window: float, as_logged: str = "") -> str:
    """Return the note on lines smoothed over `window` epochs, if that smooths any."""
    said = f", running mean over {window:.2g} epoch{'s' * (f'{window:.2g}' != '1')}{as_logged}"
    smoothed = any(is_smoothed(curve, window) for curve in lines)
    return lines_note((len(curve.values) for curve in lines), said * smoothed)


def epoch_axis(axes: Axes, longest: float, first: int = 0) -> None:
    """Show whole epochs on the axis, from `first` to the last one of the longest run.

    Scores are measured after an epoch, so theirs is 1.
    """
    room = 0.02 * (longest - first) or 0.5
    axes.set_xlim(first - room * (first > 0), longest + room)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], nbins=6))


def longest(histories: Iterable[History]) -> float:
    """Return the number of epochs of the longest run."""
    return max(max(steps) / run.length for run in histories for steps in run.rows.values())
