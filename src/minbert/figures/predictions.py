"""Predictions of a task in a panel for each variant: confusion, reliability, scatter."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes

from minbert.evaluate.reading import GUESS, METRIC_TITLES, Predicted, read_predicted
from minbert.evaluate.score import against_floor
from minbert.evaluate.scoring import accuracy, macro_f1, score_task
from minbert.evaluate.seeds import NORMAL, Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, Values, listed, mean_of, present
from minbert.spec.figures import OneTask
from minbert.spec.task import TASKS

MOST_PANELS = 12  # more variants would not fit on a page


def panel_each(
    options: OneTask,
    inputs: Inputs,
    height: float,
    draw: Callable[[Axes, Predicted], Sequence[str]],
    note: str,
) -> Drawn | None:
    """Return a figure with a panel for each variant that has predictions on dev of `options.task`.

    `draw` gets the axes and the predictions, and returns the lines of the panel's head below the
    label. `note` says what is drawn. Not more than `MOST_PANELS` are shown. If a half of dev chose
    the epochs of some, all are shown on the other half. Variants of different data raise
    `UserError`.
    """
    task, labels = options.task, inputs.variants
    files = {name: present(inputs.predictions[name].get(task, {})).values() for name in labels}
    there = [name for name, paths in files.items() if paths]
    if not there:
        return None
    shown = there[:MOST_PANELS]
    more = len(there) - len(shown)
    read = read_predicted(chain(*(files[name] for name in shown)), task)
    found = read.split([len(files[name]) for name in shown])
    figure, panels = style.panels(len(found), height)
    for axes, name, one in zip(panels, shown, found, strict=True):
        tests = [against_floor(task, prediction, one.label) for prediction in one.prediction]
        lines = [style.shorten(labels[name], 30), *draw(axes, one)]
        if low := sum(not test.learned for test in tests):
            lines.append(f"\u00d7 not above the floor: {low} of {len(tests)} seeds")
        axes.set_title("\n".join(lines), fontsize=7.5)
    seeds = mean_of(len(one.prediction) for one in found)
    return figure, [
        f"n = {len(found[0].ids)} dev {'pairs' if TASKS[task].pair else 'examples'}, {seeds}; in "
        f"brackets: smallest and largest seed. {note}",
        f"Floor ({GUESS}): {tests[0].floor:.3g}. \u00d7: not above it at the 5 % level.",
        f"Not shown, for lack of space: {more} more variants." * bool(more),
    ]


def head(
    measure: str, score: Callable[[Values, Values], float], predicted: Values, label: Values
) -> str:
    """Return the mean score over the seeds in `predicted` [seeds, n], the smallest and largest."""
    found = [score(of_seed, label) for of_seed in predicted]
    ends = f" [{min(found):.3f}, {max(found):.3f}]" if len(found) > 1 else ""
    return f"{measure} {fmean(found):.3f}{ends}"


MOST_WRITTEN = 8
"""With more classes than these, numbers in the cells would not be readable."""


def confusion_matrix(options: OneTask, inputs: Inputs) -> Drawn | None:
    """Draw a matrix per variant, on dev.

    A row is a true class: the shares of it that were predicted as each class, over all seeds, and
    below it the number of examples per seed.
    """
    about = TASKS[options.task]
    classes = about.classes

    def draw(axes: Axes, one: Predicted) -> list[str]:
        # Of each true class [rows] what it was predicted as [columns], over all seeds.
        true, edges = np.broadcast_to(one.label, one.prediction.shape), np.arange(classes + 1) - 0.5
        counts, *_ = np.histogram2d(true.ravel(), one.prediction.ravel(), (edges, edges))
        shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
        words = [
            [f"{share:.2f}\n{count / len(true):.0f}" for share, count in zip(*row, strict=True)]
            for row in zip(shares, counts, strict=True)
        ]
        apart = 1 + (classes - 1) // MOST_WRITTEN
        names = [str(n) * (n % apart == 0) for n in range(classes)]
        style.heat_map(axes, shares, words * (apart == 1), names, names, (0, 1))
        axes.set(xlabel="predicted class", ylabel="true class")
        scores = {"accuracy": accuracy, "macro-F1": macro_f1}
        return [head(name, score, one.prediction, one.label) for name, score in scores.items()]

    names = listed([f"{number} {name}" for number, name in enumerate(about.names)])
    note = "Shares of a row add up to 1; below each: examples." + f" Classes: {names}." * bool(
        names
    )
    return panel_each(options, inputs, 2.9, draw, note)


BINS = 10
"""Of equal width, from 0 to 1."""


def calibration(options: OneTask, inputs: Inputs) -> Drawn | None:
    """Draw a diagram per variant, on dev, with the share of examples behind.

    The expected calibration error is that of Guo et al. (2017, section 2), on the score of class 1.
    """
    name = (TASKS[options.task].names or ("0", "1"))[1]

    def draw(axes: Axes, one: Predicted) -> list[str]:
        scores = np.clip(one.scores[:, :, 0], 0, 1)
        examples, score, share = binned(scores, np.tile(one.label, (len(scores), 1)))
        axes.bar(
            np.arange(BINS) / BINS, examples / scores.size, 1 / BINS, align="edge", color="0.85"
        )
        axes.plot([0, 1], [0, 1], **style.ZERO)
        shares = map(Interval, share, *wilson(share, examples / len(scores)))
        style.points(axes, zip(score, shares, strict=True), style.look(0))
        axes.set(xlim=(-0.03, 1.03), xlabel=f"score of '{name}'")
        axes.set(ylim=(-0.03, 1.03), ylabel=f"share of '{name}'")
        return [head("ECE", calibration_error, scores, one.label)]

    note = (
        f"Above: expected calibration error (Guo et al., 2017), in {BINS} bins; always predicting "
        "the share of a class has one of 0. Grey: share of examples in each bin; bars: 95 % "
        "interval over its examples, not over seeds (Wilson)."
    )
    return panel_each(options, inputs, 2.5, draw, note)


def binned(score: Values, label: Values) -> tuple[Values, Values, Values]:
    """Return the examples in each of the `BINS`, their mean score, and their share of class 1.

    Scores are in [0, 1], labels in {0, 1}; arrays of one shape.
    """
    sums = [
        np.histogram(score, BINS, (0, 1), weights=of)[0]
        for of in (np.ones_like(score), score, label)
    ]
    examples = np.where(sums[0] > 0, sums[0], np.nan)
    return sums[0], sums[1] / examples, sums[2] / examples


def calibration_error(scores: Values, label: Values) -> float:
    """Return the expected calibration error: the mean gap of a bin, weighted by its examples."""
    examples, score, share = binned(scores, label)
    return float(np.nansum(np.abs(score - share) * examples) / examples.sum())


def wilson(share: Values, count: Values) -> tuple[Values, Values]:
    """Return the ends of the 95 % interval of shares of `count` examples (Wilson, 1927)."""
    ratio = NORMAL**2 / np.where(count > 0, count, np.nan)
    middle = (share + ratio / 2) / (1 + ratio)
    half = np.sqrt(ratio * share * (1 - share) + ratio**2 / 4) / (1 + ratio)
    return middle - half, middle + half


def sts_scatter(options: OneTask, inputs: Inputs) -> Drawn | None:
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
