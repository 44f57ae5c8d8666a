"""The training loss of several variants over epochs (the hybrid-bert paper, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray
from pydantic import Field

from minbert.common.errors import UserError
from minbert.evaluate.reading import read_columns
from minbert.figures import style
from minbert.figures.inputs import Inputs, absent_notes, present
from minbert.figures.spec import FigureSpec, render

_POINTS = 400  # a smoothed line has no more: more would only make the PDF large
Values = NDArray[np.float64]
_COLUMNS = ("step", "epoch", "split", "task", "metric", "value")


class Spec(FigureSpec):
    """What is drawn: `variants` as {name: label}, in the order of the legend.

    `task`, `metric` and `split` choose the rows of the history. `smooth` is the width of the
    running mean as a share of the epochs shown; 0 draws the raw curve only.
    """

    variants: dict[str, str] = Field(min_length=1)
    task: str = "overall"
    metric: str = "loss"
    split: str = "train"
    ylabel: str = "Multitask training loss"
    smooth: float = Field(default=1 / 20, ge=0, lt=1)


class Curve(NamedTuple):
    """One variant: `values` [seeds, points] at `epochs` [points]."""

    epochs: Values
    values: Values


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the curves of `spec` (see `Spec`) from the histories; save `STEM.pdf`, `STEM.png`.

    What of the histories is absent is said in a note under the axes. A variant that the spec does
    not name is not drawn. A spec or a history that is malformed raises `UserError`.
    """
    render("loss-curves", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    figure = style.new_figure()
    axes = figure.add_subplot()
    curves, absent = _read(spec, inputs)
    longest = max((curve.epochs[-1] for curve in curves.values()), default=1.0)
    window = spec.smooth * longest
    for index, (name, label) in enumerate(spec.variants.items()):
        if name in curves:
            _draw_curve(axes, curves[name], label, style.look(index), window)
    figure.suptitle(spec.title)
    axes.set(xlabel="Epoch", ylabel=f"{spec.ylabel} (log scale)", yscale="log")
    axes.set_xlim(0, 1.02 * longest)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    if curves:
        style.add_legend(axes)
    else:
        axes.text(0.5, 0.5, "no run yet", transform=axes.transAxes, ha="center", color="0.4")
    return figure, _notes(curves, absent, window)


def _read(spec: Spec, inputs: Inputs) -> tuple[dict[str, Curve], list[str]]:
    """Return the curve of each variant that has one, and notes that name what is absent."""
    there = {name: present(inputs.histories.get(name, {})) for name in spec.variants}
    curves = {name: _curve(spec, list(of.values())) for name, of in there.items() if of}
    return curves, absent_notes(spec.variants, there, inputs.histories, inputs.failed)


def _curve(spec: Spec, paths: list[Path]) -> Curve:
    """Return the seeds' histories at the steps that all of them have."""
    read = [_history(spec, path) for path in paths]
    steps = sorted(set.intersection(*(set(values) for values, _ in read)))
    if not steps:
        raise UserError(
            f"{paths[0]} and the histories of the other seeds have no step in common; "
            "they are of different settings: train the variant's seeds again"
        )
    values = np.array([[history[step] for step in steps] for history, _ in read])
    return Curve(np.array(steps) / read[0][1], values)


def _history(spec: Spec, path: Path) -> tuple[dict[int, float], float]:
    """Return {step: value} of one history, and its number of steps an epoch."""
    wanted = [("task", "=", spec.task), ("metric", "=", spec.metric), ("split", "=", spec.split)]
    rows = read_columns(path, _COLUMNS, wanted)
    if rows.num_rows == 0:
        raise UserError(
            f"{path}: no row of task '{spec.task}', metric '{spec.metric}', split '{spec.split}'; "
            "the figure's spec names what the history does not have"
        )
    values = dict(zip(rows["step"].to_pylist(), rows["value"].to_pylist(), strict=True))
    # Dev is scored at the end of each epoch, so its first step tells an epoch's length exactly;
    # training rows may be logged every few steps only.
    dev = read_columns(path, ("step", "split"), [("split", "=", "dev"), ("step", ">", 0)])
    if dev.num_rows:
        return values, float(min(dev["step"].to_pylist()))
    return values, max(values) / len(set(rows["epoch"].to_pylist()))


def _draw_curve(axes: Axes, curve: Curve, label: str, look: style.Look, window: float) -> None:
    """Draw mean and band over seeds, smoothed, and the raw mean behind them."""
    mean = curve.values.mean(axis=0)
    smooth = running_mean(curve.epochs, curve.values, window)
    if _is_smoothed(curve, window):
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


def _is_smoothed(curve: Curve, window: float) -> bool:
    """Return whether the window holds more than the point itself somewhere."""
    return len(curve.epochs) > 2 and window / 2 >= np.diff(curve.epochs).min()


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


def _notes(curves: Mapping[str, Curve], absent: list[str], window: float) -> list[str]:
    notes = []
    if curves:
        counts = sorted({len(curve.values) for curve in curves.values()})
        line = "Lines: 1 seed" if counts == [1] else "Lines: mean of "
        line += "" if counts == [1] else f"{' or '.join(map(str, counts))} seeds"
        if any(_is_smoothed(curve, window) for curve in curves.values()):
            width = f"{window:.2g}"
            line += f", running mean over {width} epoch{'s' * (width != '1')} (faint: as logged)"
        band = "" if counts == [1] else " Bands: smallest to largest seed."
        notes.append(f"{line}.{band}")
    return notes + absent
