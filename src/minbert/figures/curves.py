"""Curves over epochs: read from the histories of a variant's seeds, and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from minbert.common.errors import UserError
from minbert.evaluate.reading import read_columns
from minbert.figures import style
from minbert.figures.inputs import OfSeeds, present

_POINTS = 400  # a smoothed line has no more: more would only make the PDF large
_COLUMNS = ("step", "epoch", "split", "task", "metric", "value")
Values = NDArray[np.float64]


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
    """Return all that a `history.parquet` holds; one without any row raises `UserError`."""
    table = read_columns(path, _COLUMNS)
    if table.num_rows == 0:
        raise UserError(f"{path}: holds no rows; delete it and train the stage again")
    rows: dict[Of, dict[int, float]] = {}
    columns = (table[name].to_pylist() for name in _COLUMNS)
    scored, steps, epochs = [], [], set()
    for step, epoch, split, task, metric, value in zip(*columns, strict=True):
        rows.setdefault(Of(split, task, metric), {})[step] = value
        # Dev is scored at the end of each epoch, so its first step tells an epoch's length
        # exactly; training rows may be logged every few steps only.
        if split == "dev" and step > 0:
            scored.append(step)
        if split == "train":
            steps.append(step)
            epochs.add(epoch)
    length = min(scored) if scored else max(steps) / len(epochs)
    return History(path, rows, float(length))


def read_histories(of_seeds: OfSeeds) -> list[History]:
    """Return the histories of the seeds whose files are there, in ascending order of seed."""
    return [read_history(path) for path in present(of_seeds).values()]


def curve_of(histories: Sequence[History], of: Of) -> Curve | None:
    """Return the seeds' values at the steps that all of them have; None where no run has any.

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
    axes: Axes, curve: Curve, label: str, look: style.Look, window: float = 0.0, faint: bool = True
) -> None:
    """Draw mean and band over seeds, smoothed over `window` epochs; the raw mean behind them."""
    mean = curve.values.mean(axis=0)
    smooth = running_mean(curve.epochs, curve.values, window)
    if faint and is_smoothed(curve, window):
        axes.plot(curve.epochs, mean, color=look.color, linewidth=0.4, alpha=0.25, zorder=1)
    shown = np.unique(np.linspace(0, len(mean) - 1, _POINTS).round().astype(int))
    epochs, smooth = curve.epochs[shown], smooth[:, shown]
    if len(smooth) > 1:
        low, high = smooth.min(axis=0), smooth.max(axis=0)
        axes.fill_between(epochs, low, high, color=look.color, alpha=0.2, linewidth=0, zorder=2)
    axes.plot(
        epochs,
        smooth.mean(axis=0),
        color=look.color,
        linestyle=look.linestyle,
        marker=look.marker,
        markevery=max(1, len(shown) // 8),
        label=label,
        zorder=3,
    )


def is_smoothed(curve: Curve, window: float) -> bool:
    """Return whether the window holds more than the point itself somewhere."""
    return len(curve.epochs) > 2 and bool(window / 2 >= np.diff(curve.epochs).min())


def running_mean(epochs: Values, values: Values, window: float) -> Values:
    """Return each row of `values` [rows, points] averaged over `window` epochs around each point.

    The window is centred; at both ends it is what of it lies inside, at least half, so that the
    last point is a mean too and not one step's noise.
    """
    slack = 1e-9 * max(1.0, float(epochs[-1]))  # a point on the window's edge is in, rounded or not
    first = np.searchsorted(epochs, epochs - window / 2 - slack)
    last = np.searchsorted(epochs, epochs + window / 2 + slack)
    total = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    averaged = (total[:, last] - total[:, first]) / (last - first)
    return np.where(last - first == 1, values, averaged)


def lines_notes(counts: Iterable[int], smoothed: float | None = None, as_logged: str = "") -> str:
    """Return the note on what lines and bands are; `smoothed` is the running mean's epochs."""
    seeds = sorted(set(counts))
    line = "Lines: 1 seed" if seeds == [1] else "Lines: mean of "
    line += "" if seeds == [1] else f"{' or '.join(map(str, seeds))} seeds"
    if smoothed is not None:
        width = f"{smoothed:.2g}"
        line += f", running mean over {width} epoch{'s' * (width != '1')}{as_logged}"
    band = "" if seeds == [1] else " Bands: smallest to largest seed."
    return f"{line}.{band}"


def epoch_axis(axes: Axes, longest: float) -> None:
    """Give the axis whole epochs from 0 to the longest run's last."""
    axes.set_xlim(0, 1.02 * longest)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], nbins=6))


def longest(histories: Iterable[History]) -> float:
    """Return the epochs of the longest of the runs."""
    return max(max(steps) / run.length for run in histories for steps in run.rows.values())
