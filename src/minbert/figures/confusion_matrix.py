"""Which class is mistaken for which: the confusion matrix of several variants."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.predictions import Predicted
from minbert.evaluate.scoring import accuracy, macro_f1
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, Values, listed, mean_of
from minbert.figures.predicted import (
    floor_note,
    over_seeds,
    panel_each,
    set_head,
    standing,
)
from minbert.spec.figures import ConfusionMatrix
from minbert.spec.task import TASKS

MOST_WRITTEN = 8
"""With more classes than these, numbers in the cells would not be readable."""
MOST_MISSING = 4
"""More classes than these that are never predicted are only counted, for lack of space."""


def plot(options: ConfusionMatrix, inputs: Inputs) -> Drawn:
    """Draw a matrix per variant, on dev.

    A row is a true class: the shares of it that were predicted as each class, over all seeds, and
    below it the number of examples per seed.
    """
    task = options.task
    height = 2.7 if len(inputs.variants) <= 3 else 3.1
    figure, found, absent = panel_each(inputs, task, height, partial(_panel, task=task))
    if not found:
        return figure, absent
    names = listed([f"{number} {name}" for number, name in enumerate(TASKS[task].names)])
    return figure, [
        f"n = {len(found[0].ids)} dev examples, {mean_of(len(one.prediction) for one in found)}."
        + f" Classes: {names}." * bool(names),
        "Shares of a row add up to 1; below each: examples. Above: "
        f"{over_seeds(found, 'accuracy')}; macro-F1. {floor_note(task, found[0])}",
        *absent,
    ]


def _panel(axes: Axes, one: Predicted, label: str, task: str) -> None:
    counts = confusion(one, TASKS[task].classes)
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    written = range(len(counts) if len(counts) <= MOST_WRITTEN else 0)
    words = [[_in_words(shares[row, of], counts[row, of]) for of in written] for row in written]
    names = [str(each) for each in written]
    style.heat_map(axes, shares, words, names, names, (0, 1))
    axes.set(box_aspect=1, xlabel="predicted class", ylabel="true class")
    for axis in (axes.xaxis, axes.yaxis) if not written else ():
        axis.set_major_locator(MaxNLocator(integer=True))
        axis.set_major_formatter("{x:.0f}")
    f1 = np.mean([macro_f1(prediction, one.label) for prediction in one.prediction])
    never = [str(said) for said in np.flatnonzero(~counts.any(axis=0))]
    missed = f"never predicted: {', '.join(never)}" if never else ""
    if len(never) > MOST_MISSING:
        missed = f"{len(never)} classes never predicted"
    right = [accuracy(prediction, one.label) for prediction in one.prediction]
    set_head(axes, label, "accuracy", right, f"macro-F1 {f1:.3f}", missed, standing(task, one))


def _in_words(share: float, count: float) -> str:
    """Return the share of a cell, and below it how many examples per seed these are."""
    return f"{share:.2f}\n{count:.{int(count < 10 and count % 1 > 0)}f}"


def confusion(one: Predicted, classes: int) -> Values:
    """Return the examples per seed of each true class [rows] predicted as each class [columns]."""
    counts = np.zeros((classes, classes))
    true = np.broadcast_to(one.label, one.prediction.shape).astype(int)
    np.add.at(counts, (true, one.prediction.astype(int)), 1)
    return counts / len(one.prediction)
