"""Predicted against true similarity, with the distributions of both beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.figures.predicted import Predicted, of_variants
from minbert.figures.spec import FigureSpec, render
from minbert.figures.words import mean_words
from minbert.grid.tasks import TASKS
from minbert.scoring import pearson

TASK = "sts"
_BINS = 20


class Spec(FigureSpec):
    """A panel a variant, on dev."""

    variants: dict[str, str] = Field(min_length=1)


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the scatter plots of `spec` (see `Spec`) from dev predictions.

    A point is a pair: its label, and the mean of what the seeds predict. The r above is the mean
    of the seeds' own.
    """
    render("sts-scatter", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    found, absent = of_variants(inputs, spec.variants, TASK)
    if not found:
        return style.nothing(spec.title), absent
    figure, panels = style.panels(len(found), 2.75)
    for axes, (name, one) in zip(panels, found.items(), strict=True):
        _panel(axes, one, spec.variants[name])
    figure.suptitle(spec.title)
    first = next(iter(found.values()))
    seeds = max(len(one.seeds) for one in found.values())
    mean = f"; points: mean prediction of {seeds} seeds" if seeds > 1 else "; 1 seed"
    said = f"n = {len(first.ids)} dev pairs{mean}. Line: both alike. Bars: shares of all pairs."
    over = " Above: Pearson r, mean and 95 % interval over seeds." if seeds > 1 else ""
    return figure, [said + over, *absent]


def _panel(axes: Axes, one: Predicted, label: str) -> None:
    low, high = TASKS[TASK].low, TASKS[TASK].high
    mean = one.prediction.mean(axis=0)
    look = style.look(0)
    reach = (min(low, float(mean.min())) - 0.15, max(high, float(mean.max())) + 0.15)
    axes.plot([low, high], [low, high], color="0.5", linewidth=0.8, zorder=2)
    axes.plot(
        one.label,
        mean,
        look.marker,
        color=look.color,
        markersize=1.8,
        alpha=0.4,
        markeredgewidth=0,
        zorder=3,
    )
    ends = (low - 0.15, high + 0.15)
    axes.set(xlim=ends, ylim=reach, xlabel="label (0 to 5)", ylabel="prediction")
    above = axes.inset_axes((0, 1.02, 1, 0.14), sharex=axes)
    beside = axes.inset_axes((1.02, 0, 0.14, 1), sharey=axes)
    _marginal(above, one.label, ends, "vertical")
    _marginal(beside, mean, reach, "horizontal")
    right = [pearson(values, one.label) for values in one.prediction]
    above.set_title(f"{style.shorten(label, 30)}\nr {mean_words(right)}", fontsize=7.5)


def _marginal(axes: Axes, values: Any, ends: tuple[float, float], way: Any) -> None:
    axes.hist(
        values,
        bins=np.linspace(*ends, _BINS + 1).tolist(),
        orientation=way,
        color="0.6",
        weights=np.full(len(values), 1 / len(values)),
    )
    axes.set_axis_off()
