"""The training loss of several variants over epochs (the hybrid-bert paper, Figure 3)."""

from itertools import chain

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter
from pydantic import Field

from minbert.base.errors import UserError
from minbert.figures import curves, style
from minbert.figures.curves import Of
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec


class Spec(VariantsSpec):
    """A line per variant, in the order of `variants`, and its mean over the last epoch.

    `task`, `metric` and `split` choose the rows of the history, which must be there. `smooth` is
    the width of the running mean as a share of the epochs shown; 0 draws the raw curve only.
    """

    task: str = "overall"
    metric: str = "loss"
    split: str = "train"
    ylabel: str = "Multitask training loss"
    smooth: float = Field(default=1 / 20, ge=0, lt=1)

    def plot(self, inputs: Inputs) -> Drawn:
        of = Of(self.split, self.task, self.metric)
        found, notes = curves.histories_of(inputs, self.variants)
        for history in chain(*found.values()):
            if of not in history.rows:
                raise UserError(
                    f"{history.path}: no row of task '{self.task}', metric '{self.metric}', split "
                    f"'{self.split}'; the figure's spec names what the history does not have"
                )
        drawn = {name: curves.curve_of(histories, of) for name, histories in found.items()}
        lines = [curve for curve in drawn.values() if curve is not None]
        longest = max((curve.epochs[-1] for curve in lines), default=1.0)
        window = self.smooth * longest
        figure = style.new_figure()
        axes = figure.add_subplot()
        for index, (name, label) in enumerate(self.variants.items()):
            curve = drawn.get(name)
            ended = "" if curve is None else f" ({last_epoch(curve):#.3g})"
            curves.draw_curve(axes, curve, style.look(index), window, label=f"{label}{ended}")
        axes.set(xlabel="Epoch", ylabel=f"{self.ylabel} (log scale)", yscale="log")
        curves.epoch_axis(axes, longest)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        if not lines:
            style.say(axes)
            return figure, notes
        style.add_legend(axes)
        said = curves.smoothed_note(lines, window, " (faint: as logged)")
        return figure, [f"{said} In brackets: mean of the last epoch.", *notes]


def last_epoch(curve: curves.Curve) -> float:
    """Return the mean over seeds and the steps of the last epoch."""
    end = np.ceil(curve.epochs[-1] - 1e-9) - 1
    return float(curve.values[:, curve.epochs > end + 1e-9].mean())
