"""Predictions of a task in a panel for each variant: confusion, reliability, scatter."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from statistics import fmean

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import betaincinv

from minbert.base.progress import some
from minbert.evaluate.reading import GUESS, METRIC_TITLES, Predicted, read_predicted
from minbert.evaluate.score import against_floor
from minbert.evaluate.scoring import Floats, accuracy, macro_f1, score_task
from minbert.evaluate.seeds import Interval
from minbert.figures import style
from minbert.figures.read import NAMED, Drawn, Inputs, mean_of
from minbert.spec.figures import OneTask
from minbert.spec.task import TASKS


def panel_each(
    options: OneTask,
    inputs: Inputs,
    height: float,
    draw: Callable[[Axes, Predicted], Sequence[str]],
    note: str,
) -> Drawn:
    """Return a figure with a panel for each variant that has predictions on dev of `options.task`.

    `draw` gets the axes and the predictions, and returns the lines of the panel's head below the
    label. `note` says what is drawn. If a half of dev chose the epochs of some, all are shown on
    the other half. Variants of different data raise `UserError`.
    """
    task = options.task
    files = [
        (label, [*of_seeds.values()])
        for name, label in inputs.variants.items()
        if (of_seeds := inputs.predictions(name).get(task))
    ]
    figure, panels = style.panels(len(files), height)
    read = read_predicted(chain(*(paths for _, paths in files)), task)
    found = read.split([len(paths) for _, paths in files])
    crossed = False
    for axes, (label, _), one in zip(panels, files, found, strict=True):
        tests = [against_floor(task, prediction, one.label) for prediction in one.prediction]
        lines = [style.shorten(label, 30), *draw(axes, one)]
        if low := sum(not test.learned for test in tests):
            crossed = True
            lines.append(f"\u00d7 not clearly above the floor: {low} of {len(tests)} seeds")
        axes.set_title("\n".join(lines), fontsize=7.5)
    seeds = mean_of(len(one.prediction) for one in found)
    return figure, [
        f"n = {len(read.ids)} dev {'pairs' if TASKS[task].pair else 'examples'}, {seeds}; in "
        f"brackets: smallest and largest seed. {note}",
        f"Floor of {METRIC_TITLES[TASKS[task].metric]} ({GUESS}): {tests[0].floor:.3g}." * crossed,
    ]


def head(
    measure: str, score: Callable[[Floats, Floats], float], predicted: Floats, label: Floats
) -> str:
    """Return the mean score over the seeds in `predicted` [seeds, n], the smallest and largest."""
    found = [score(of_seed, label) for of_seed in predicted]
    ends = f" [{min(found):.3f}, {max(found):.3f}]" if len(found) > 1 else ""
    return f"{measure} {fmean(found):.3f}{ends}"


MOST_WRITTEN = 8
"""With more classes than these, numbers in the cells would not be readable."""


def confusion_matrix(options: OneTask, inputs: Inputs) -> Drawn:
    """Draw a matrix per variant, on dev.

    A row is a true class: the shares of it that were predicted as each class, over all seeds, and
    below it the number of examples per seed.
    """
    about = TASKS[options.task]

    def draw(axes: Axes, one: Predicted) -> list[str]:
        # Of each true class [rows] what it was predicted as [columns], over all seeds.
        true = np.tile(one.label, len(one.prediction))
        found, known = pd.crosstab(true, one.prediction.ravel()), range(about.classes)
        counts = found.reindex(index=known, columns=known, fill_value=0)
        shares = counts.div(counts.sum(axis=1).clip(lower=1), axis=0)
        of_seed = (counts / len(one.prediction)).map("{:.0f}".format)
        words = shares.map("{:.2f}\n".format) + of_seed
        apart = 1 + (about.classes - 1) // MOST_WRITTEN
        shares.index = shares.columns = pd.Index([str(n) * (n % apart == 0) for n in known])
        style.heat_map(axes, shares, words if apart == 1 else words[:0])
        axes.set(xlabel="predicted class", ylabel="true class")
        scores = {"accuracy": accuracy, "macro-F1": macro_f1}
        return [head(name, score, one.prediction, one.label) for name, score in scores.items()]

    names = some((f"{number} {name}" for number, name in enumerate(about.names)), NAMED)
    note = "Shares of a row add up to 1; below each: examples."
    return panel_each(options, inputs, 2.9, draw, note + f" Classes: {names}." * bool(names))


BINS = 10
"""Of equal width, from 0 to 1."""


def calibration(options: OneTask, inputs: Inputs) -> Drawn:
    """Draw a diagram per variant, on dev, with the share of examples behind.

    The expected calibration error is that of Guo et al. (2017, section 2), on the score of class 1.
    """
    name = (TASKS[options.task].names or ("0", "1"))[1]

    def draw(axes: Axes, one: Predicted) -> list[str]:
        scores = np.clip(one.scores[:, :, 0], 0, 1)
        bins = binned(scores, np.broadcast_to(one.label, scores.shape))
        axes.bar(
            bins.index / BINS, bins.examples / scores.size, 1 / BINS, align="edge", color="0.85"
        )
        axes.plot([0, 1], [0, 1], **style.ZERO)
        examples = bins.examples / len(scores)  # of a seed
        hits = bins.share * examples
        ends = betaincinv(hits + 0.5, examples - hits + 0.5, [[0.025], [0.975]])
        for score, *interval in zip(bins.score, bins.share, *ends, strict=True):
            style.point(axes, score, Interval(*interval), style.look(0))
        limits = -0.03, 1.03
        axes.set(xlim=limits, ylim=limits, xlabel=f"score of '{name}'", ylabel=f"share of '{name}'")
        return [head("ECE", calibration_error, scores, one.label)]

    note = (
        f"Above: expected calibration error (Guo et al., 2017), in {BINS} bins; a model that "
        "always predicts the share of a class has an error of 0. Grey: share of examples in each "
        "bin; bars: 95 % interval over its examples, not over seeds (Jeffreys)."
    )
    return panel_each(options, inputs, 2.5, draw, note)


def binned(score: Floats, label: Floats) -> pd.DataFrame:
    """Return the `examples` of each bin that has any, their mean `score` and `share` of class 1.

    Scores are in [0, 1], labels in {0, 1}; arrays of one shape.
    """
    found = pd.DataFrame({"score": score.ravel(), "label": label.ravel()})
    bins = found.groupby(np.minimum(found.score * BINS, BINS - 1).astype(int))
    return bins.agg(examples=("score", "size"), score=("score", "mean"), share=("label", "mean"))


def calibration_error(scores: Floats, label: Floats) -> float:
    """Return the expected calibration error: the mean gap of a bin, weighted by its examples."""
    bins = binned(scores, label)
    return float(np.average(np.abs(bins.score - bins.share), weights=bins.examples))


def sts_scatter(options: OneTask, inputs: Inputs) -> Drawn:
    """Draw a panel per variant, on dev: each example's label and mean prediction."""
    about = TASKS[options.task]
    low, high, metric = about.low, about.high, METRIC_TITLES[about.metric]

    def draw(axes: Axes, one: Predicted) -> list[str]:
        mean = one.prediction.mean(axis=0)
        axes.plot([low, high], [low, high], **style.ZERO)
        axes.scatter(one.label, mean, s=3, color=style.look(0)["color"], alpha=0.4, lw=0, zorder=3)
        axes.set(xlabel=f"label ({low:g} to {high:g})", ylabel="prediction")
        above = axes.inset_axes((0, 1.02, 1, 0.14), sharex=axes)
        beside = axes.inset_axes((1.02, 0, 0.14, 1), sharey=axes)
        above.hist(one.label, bins=20, color="0.6")
        beside.hist(mean, bins=20, color="0.6", orientation="horizontal")
        for side in (above, beside):
            side.set_axis_off()
        return [head(metric, partial(score_task, options.task), one.prediction, one.label)]

    note = "Points: mean of the seeds; line: prediction = label; bars: how often each value occurs."
    return panel_each(options, inputs, 2.75, draw, note)
