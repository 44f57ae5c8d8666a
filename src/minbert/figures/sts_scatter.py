"""Predicted against true values, with the distributions of both beside it."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from minbert.evaluate.predictions import Predicted
from minbert.evaluate.reading import METRIC_TITLES
from minbert.evaluate.scoring import score_task
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, mean_of
from minbert.figures.predicted import (
    floor_note,
    over_seeds,
    panel_each,
    set_head,
    standing,
)
from minbert.spec.figures import StsScatter
from minbert.spec.task import TASKS

_BINS = 20
_EDGE = 0.03
"""Room beyond the lowest and the highest label, as a share of their distance."""


def plot(options: StsScatter, inputs: Inputs) -> Drawn:
    """Draw a panel per variant, on dev: each example's label and mean prediction."""
    task = options.task
    figure, found, absent = panel_each(inputs, task, 2.75, partial(_panel, task=task))
    if not found:
        return figure, absent
    items = "pairs" if TASKS[task].pair else "examples"
    return figure, [
        f"n = {len(found[0].ids)} dev {items}; points: "
        f"{mean_of(len(one.prediction) for one in found)}. "
        f"Line: prediction = label. Bars: shares of all {items}. Above: "
        f"{over_seeds(found, METRIC_TITLES[TASKS[task].metric])}.",
        floor_note(task, found[0]),
        *absent,
    ]


def _panel(axes: Axes, one: Predicted, label: str, task: str) -> None:
    low, high = TASKS[task].low, TASKS[task].high
    edge = _EDGE * (high - low)
    mean = one.prediction.mean(axis=0)
    look = style.look(0)
    reach = (min(low, float(mean.min())) - edge, max(high, float(mean.max())) + edge)
    axes.plot([low, high], [low, high], color="0.5", linewidth=0.8, zorder=2)
    about: dict[str, Any] = {"markersize": 1.8, "alpha": 0.4, "markeredgewidth": 0, "zorder": 3}
    axes.plot(one.label, mean, look.marker, color=look.color, **about)
    ends = (low - edge, high + edge)
    axes.set(xlim=ends, ylim=reach, xlabel=f"label ({low:g} to {high:g})", ylabel="prediction")
    above = axes.inset_axes((0, 1.02, 1, 0.14), sharex=axes)
    beside = axes.inset_axes((1.02, 0, 0.14, 1), sharey=axes)
    weights = np.full(len(mean), 1 / len(mean))
    sides: Any = ((above, one.label, ends, "vertical"), (beside, mean, reach, "horizontal"))
    for side, values, limits, way in sides:
        bins = np.linspace(limits[0], limits[1], _BINS + 1).tolist()
        side.hist(values, bins=bins, orientation=way, color="0.6", weights=weights)
        side.set_axis_off()
    scores = [score_task(task, values, one.label) for values in one.prediction]
    name = METRIC_TITLES[TASKS[task].metric].rpartition(" ")[2]
    set_head(above, label, name, scores, standing(task, one))
