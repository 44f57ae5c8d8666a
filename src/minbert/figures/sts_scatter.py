"""Predicted against true similarity, with the distributions of both beside it."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from minbert.evaluate.scoring import pearson
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec
from minbert.figures.predicted import Predicted, floor_note, panel_each, set_head, standing
from minbert.spec.task import TASKS

TASK = "sts"
_BINS = 20


class Spec(VariantsSpec):
    """A panel per variant, on dev: each pair's label and mean prediction, and the seeds' mean r."""

    def plot(self, inputs: Inputs) -> Drawn:
        figure, found, absent = panel_each(inputs, self.variants, TASK, (2.75, 2.75), _panel)
        if not found:
            return figure, absent
        seeds = max(len(one.seeds) for one in found)
        mean = f"points: mean prediction of {seeds} seeds" if seeds > 1 else "1 seed"
        said = f"n = {len(found[0].ids)} dev pairs; {mean}. Line: prediction = label."
        over = " Above: Pearson r, mean and 95 % interval over seeds." if seeds > 1 else ""
        bars = f"{said} Bars: shares of all pairs.{over}"
        return figure, [bars, floor_note(TASK, found[0]), *absent]


def _panel(axes: Axes, one: Predicted, label: str) -> None:
    low, high = TASKS[TASK].low, TASKS[TASK].high
    mean = one.prediction.mean(axis=0)
    look = style.look(0)
    reach = (min(low, float(mean.min())) - 0.15, max(high, float(mean.max())) + 0.15)
    axes.plot([low, high], [low, high], color="0.5", linewidth=0.8, zorder=2)
    about: dict[str, Any] = {"markersize": 1.8, "alpha": 0.4, "markeredgewidth": 0, "zorder": 3}
    axes.plot(one.label, mean, look.marker, color=look.color, **about)
    ends = (low - 0.15, high + 0.15)
    axes.set(xlim=ends, ylim=reach, xlabel="label (0 to 5)", ylabel="prediction")
    above = axes.inset_axes((0, 1.02, 1, 0.14), sharex=axes)
    beside = axes.inset_axes((1.02, 0, 0.14, 1), sharey=axes)
    weights = np.full(len(mean), 1 / len(mean))
    sides: Any = ((above, one.label, ends, "vertical"), (beside, mean, reach, "horizontal"))
    for side, values, limits, way in sides:
        bins = np.linspace(limits[0], limits[1], _BINS + 1).tolist()
        side.hist(values, bins=bins, orientation=way, color="0.6", weights=weights)
        side.set_axis_off()
    r = [pearson(values, one.label) for values in one.prediction]
    set_head(above, label, "r", r, standing(TASK, one))
