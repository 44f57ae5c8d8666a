"""Which class is taken for which: SST's confusion matrix of several variants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field

from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.figures.predicted import Predicted, of_variants
from minbert.figures.spec import FigureSpec, render
from minbert.figures.words import mean_words
from minbert.grid.tasks import TASKS
from minbert.scoring import accuracy

TASK = "sst"


class Spec(FigureSpec):
    """A panel a variant, on dev."""

    variants: dict[str, str] = Field(min_length=1)


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the confusion matrices of `spec` (see `Spec`) from dev predictions.

    A row is a true class: the shares of it that were predicted as each class, which add up to 1,
    over all seeds; and in small type the examples, a seed.
    """
    render("confusion-matrix", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    found, absent = of_variants(inputs, spec.variants, TASK)
    if not found:
        return style.nothing(spec.title), absent
    figure, panels = style.panels(len(found), 2.65 if len(found) == 1 else 2.5)
    for axes, (name, one) in zip(panels, found.items(), strict=True):
        _panel(axes, confusion(one), spec.variants[name], one)
    figure.suptitle(spec.title)
    first = next(iter(found.values()))
    seeds = max(len(one.seeds) for one in found.values())
    many = f", mean of {seeds} seeds" if seeds > 1 else ", 1 seed"
    said = f"n = {len(first.ids)} dev examples{many}. Class 0: very negative, 4: very positive."
    above = ", mean and 95 % interval over seeds" if seeds > 1 else ""
    rows = f"Rows add up to 1; small: examples. Above: accuracy{above}."
    return figure, [said, rows, *absent]


def confusion(one: Predicted) -> NDArray[np.float64]:
    """Return the examples a seed of each true class [rows] predicted as each class [columns]."""
    classes = TASKS[TASK].classes
    counts = np.zeros((classes, classes))
    true = np.broadcast_to(one.label, one.prediction.shape).astype(int)
    np.add.at(counts, (true, one.prediction.astype(int)), 1)
    return counts / len(one.seeds)


def _panel(axes: Axes, counts: NDArray[np.float64], label: str, one: Predicted) -> None:
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.grid(visible=False)
    for (row, column), share in np.ndenumerate(shares):
        ink = "white" if share > 0.55 else "black"
        about: dict[str, Any] = {"ha": "center", "color": ink}
        axes.text(column, row - 0.13, f"{share:.2f}", fontsize=6.5, va="center", **about)
        count = counts[row, column]
        words = f"{count:.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"
        axes.text(column, row + 0.29, words, fontsize=4.5, va="center", **about)
    classes = range(len(counts))
    axes.set_xticks(classes, [str(n) for n in classes])
    axes.set_yticks(classes, [str(n) for n in classes])
    axes.tick_params(length=0)
    axes.set(xlabel="predicted class", ylabel="true class")
    right = [accuracy(values, one.label) for values in one.prediction]
    axes.set_title(f"{style.shorten(label, 30)}\naccuracy {mean_words(right)}", fontsize=7.5)
