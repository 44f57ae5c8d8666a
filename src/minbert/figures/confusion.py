"""Which class is mistaken for which: the confusion matrix of several variants."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from minbert.evaluate.scoring import accuracy, macro_f1
from minbert.figures.inputs import Drawn, Inputs, Values, VariantsSpec, mean_of
from minbert.figures.predicted import Predicted, floor_note, panel_each, set_head, standing
from minbert.spec.task import TASKS

MOST_WRITTEN = 10
"""With more classes than these, numbers in the cells would not be readable."""


class Spec(VariantsSpec):
    """A matrix per variant, on dev.

    It is of the classification `task`. A row is a true class: the shares of it that were predicted
    as each class, over all seeds, and in small type the number of examples per seed.
    """

    task: str = "sst"

    def plot(self, inputs: Inputs) -> Drawn:
        heights = (2.8, 2.7)
        drawn = panel_each(inputs, self.variants, self.task, heights, self._panel)
        figure, found, absent = drawn
        if not found:
            return figure, absent
        seeds = mean_of(len(one.seeds) for one in found)
        n = f"n = {len(found[0].ids)} dev examples, {seeds}"
        above = "" if seeds == "1 seed" else ", mean and [smallest, largest] of the seeds"
        rows = f"Rows add up to 1; small numbers: examples. Above: accuracy{above}; macro-F1."
        names = ", ".join(f"{number} {name}" for number, name in enumerate(TASKS[self.task].names))
        about = f"{n}. Classes: {names}." if names else f"{n}."
        return figure, [about, f"{rows} {floor_note(self.task, found[0])}", *absent]

    def _panel(self, axes: Axes, one: Predicted, label: str) -> None:
        counts = confusion(one, TASKS[self.task].classes)
        total = counts.sum(axis=1, keepdims=True)
        shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.grid(visible=False)
        for (row, column), share in np.ndenumerate(shares if len(shares) <= MOST_WRITTEN else []):
            ink = "white" if share > 0.55 else "black"
            about: dict[str, Any] = {"ha": "center", "va": "center", "color": ink}
            axes.text(column, row - 0.13, f"{share:.2f}", fontsize=6.5, **about)
            count = counts[row, column]
            words = f"{count:.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"
            axes.text(column, row + 0.29, words, fontsize=5.5, **about)
        classes = range(len(counts))
        axes.set(xticks=classes, yticks=classes, xlabel="predicted class", ylabel="true class")
        axes.tick_params(length=0)
        f1 = np.mean([macro_f1(prediction, one.label) for prediction in one.prediction])
        never = [str(said) for said in classes if not counts[:, said].any()]
        missed = f"; never predicted: {', '.join(never)}" if never else ""
        shares_right = [accuracy(prediction, one.label) for prediction in one.prediction]
        more = (f"macro-F1 {f1:.3f}{missed}", standing(self.task, one))
        set_head(axes, label, "accuracy", shares_right, *more)


def confusion(one: Predicted, classes: int) -> Values:
    """Return the examples per seed of each true class [rows] predicted as each class [columns]."""
    counts = np.zeros((classes, classes))
    true = np.broadcast_to(one.label, one.prediction.shape).astype(int)
    np.add.at(counts, (true, one.prediction.astype(int)), 1)
    return counts / len(one.seeds)
