"""Predictions of a task in a panel for each variant: confusion, reliability, scatter."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.floors import against_floor
from minbert.evaluate.predictions import Predicted, aligned, read_predicted
from minbert.evaluate.reading import METRIC_TITLES
from minbert.evaluate.scoring import accuracy, macro_f1, score_task
from minbert.evaluate.statistics import NORMAL, Interval, interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, Values, listed, mean_of, missing_notes, present
from minbert.spec.figures import Calibration, ConfusionMatrix, StsScatter
from minbert.spec.task import TASKS

MOST_PANELS = 12  # more variants would not fit on a page


def panel_each(
    inputs: Inputs, task: str, height: float, draw: Callable[[Axes, Predicted], list[str]]
) -> tuple[Figure, list[Predicted], list[str]]:
    """Return a figure with a panel for each variant that has predictions, these, and notes.

    `draw` gets the axes and the predictions on dev, and returns the lines of the panel's head below
    the label. Not more than `MOST_PANELS` are shown. If a half of dev chose the epochs of some, all
    are shown on the other half. Variants of different data raise `UserError`.
    """
    wanted = {name: inputs.predictions.get(name, {}).get(task, {}) for name in inputs.variants}
    there = {name: paths for name, of in wanted.items() if (paths := present(of).values())}
    notes = missing_notes(inputs.variants, wanted, inputs.failed)
    if not there:
        return style.nothing(), [], notes
    if (more := len(there) - MOST_PANELS) > 0:
        notes.append(f"Not shown, for lack of space: {more} more variants.")
    found = {name: read_predicted(there[name], task) for name in list(there)[:MOST_PANELS]}
    found = dict(zip(found, aligned(found, f"dev examples of '{task}'"), strict=True))
    figure, panels = style.panels(len(found), height)
    for axes, (name, one) in zip(panels, found.items(), strict=True):
        lines = [style.shorten(inputs.variants[name], 30), *draw(axes, one), *_standing(task, one)]
        axes.set_title("\n".join(filter(None, lines)), fontsize=7.5)
    return figure, list(found.values()), notes


def _standing(task: str, one: Predicted) -> list[str]:
    """Return what a head says of runs not above the floor: "\u00d7 predicts one class only"."""
    tests = [against_floor(task, prediction, one.label) for prediction in one.prediction]
    same = "one number" if TASKS[task].kind == "regression" else "one class only"
    constant = sum(bool(test.constant) for test in tests)
    below = sum(not (test.learned or test.constant) for test in tests)
    found = []
    for count, verb, words in ((constant, "predicts ", same), (below, "", "not above the floor")):
        of = verb if count == len(tests) else f"{count} of {len(tests)} seeds: "
        found += [f"\u00d7 {of}{words}"] * bool(count)
    return found


def floor_note(task: str, one: Predicted) -> str:
    """Return the note on the floor of the examples, and the cross of a head."""
    floor, metric = against_floor(task, one.prediction[0], one.label).floor, TASKS[task].metric
    said = f"{METRIC_TITLES[metric].rpartition(' ')[2]} = {floor:.3g}"
    if metric == "accuracy":
        said = f"the most frequent class, {floor:.3f}"
    return f"Floor: {said}. \u00d7: not above it at the 5 % level."


def mean_and_ends(measure: str, of_seeds: Sequence[float]) -> str:
    """Return the mean over seeds, with the smallest and largest of them."""
    ends = f" [{min(of_seeds):.3f}, {max(of_seeds):.3f}]" if len(of_seeds) > 1 else ""
    return f"{measure} {fmean(of_seeds):.3f}{ends}"


def over_seeds(found: Sequence[Predicted], measure: str) -> str:
    """Return what the heads say of several seeds: "accuracy, mean and [smallest, largest] ..."."""
    single = all(len(one.prediction) == 1 for one in found)
    return measure if single else f"{measure}, mean and [smallest, largest] of the seeds"


MOST_WRITTEN = 8
"""With more classes than these, numbers in the cells would not be readable."""
MOST_MISSING = 4
"""More classes than these that are never predicted are only counted, for lack of space."""


def confusion_matrix(options: ConfusionMatrix, inputs: Inputs) -> Drawn:
    """Draw a matrix per variant, on dev.

    A row is a true class: the shares of it that were predicted as each class, over all seeds, and
    below it the number of examples per seed.
    """
    task = options.task

    def draw(axes: Axes, one: Predicted) -> list[str]:
        return _matrix(axes, one, TASKS[task].classes)

    figure, found, absent = panel_each(inputs, task, 2.9, draw)
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


def _matrix(axes: Axes, one: Predicted, classes: int) -> list[str]:
    counts = confusion(one, classes)
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    written = range(classes if classes <= MOST_WRITTEN else 0)
    words = [[f"{shares[a, b]:.2f}\n{counts[a, b]:.0f}" for b in written] for a in written]
    names = [str(each) for each in written]
    style.heat_map(axes, shares, words, names, names, (0, 1))
    axes.set(xlabel="predicted class", ylabel="true class")
    for axis in (axes.xaxis, axes.yaxis) if not written else ():
        axis.set_major_locator(MaxNLocator(integer=True))
        axis.set_major_formatter("{x:.0f}")
    f1 = np.mean([macro_f1(prediction, one.label) for prediction in one.prediction])
    never = [str(said) for said in np.flatnonzero(~counts.any(axis=0))]
    missed = f"never predicted: {', '.join(never)}" if never else ""
    if len(never) > MOST_MISSING:
        missed = f"{len(never)} classes never predicted"
    right = [accuracy(prediction, one.label) for prediction in one.prediction]
    return [mean_and_ends("accuracy", right), f"macro-F1 {f1:.3f}", missed]


def confusion(one: Predicted, classes: int) -> Values:
    """Return the examples per seed of each true class [rows] predicted as each class [columns]."""
    counts = np.zeros((classes, classes))
    true = np.broadcast_to(one.label, one.prediction.shape).astype(int)
    np.add.at(counts, (true, one.prediction.astype(int)), 1)
    return counts / len(one.prediction)


BINS = 10
"""Of equal width, from 0 to 1."""


def calibration(options: Calibration, inputs: Inputs) -> Drawn:
    """Draw a diagram per variant, on dev, with the share of examples behind.

    The expected calibration error is that of Guo et al. (2017, section 2), on the score of class 1.
    """
    task = options.task
    one = (TASKS[task].names or ("0", "1"))[1]

    def draw(axes: Axes, found: Predicted) -> list[str]:
        axes.set(xlabel=f"score of '{one}'", ylabel=f"share of '{one}'")
        return [mean_and_ends("ECE", _reliability(axes, found))]

    figure, found, absent = panel_each(inputs, task, 2.5, draw)
    if not found:
        return figure, absent
    items = "pairs" if TASKS[task].pair else "examples"
    bars = f"Wilson over a bin's {items} (1 seed)"
    if any(len(one.prediction) > 1 for one in found):
        bars = f"Student t over seeds; where one alone has {items}, Wilson over these"
    ece = over_seeds(found, "expected calibration error (Guo et al., 2017)")
    return figure, [
        f"n = {len(found[0].ids)} dev {items} in {BINS} bins; grey: share of {items} in each.",
        f"ECE: {ece}. 95 % intervals: {bars}.",
        f"{floor_note(task, found[0])} For these, a small ECE means nothing: always predicting the "
        "share of class 1 has an ECE of 0.",
        *absent,
    ]


class Bins(NamedTuple):
    """What falls into each bin [bins] for one seed: examples, mean score, share of class 1."""

    examples: Values
    score: Values
    share: Values


def binned(score: Values, label: Values, bins: int = BINS) -> Bins:
    """Return the bins of one seed's `score` [n] in [0, 1] and `label` [n] in {0, 1}."""
    place = np.clip((score * bins).astype(int), 0, bins - 1)
    count = np.bincount(place, minlength=bins).astype(float)
    there = np.where(count > 0, count, np.nan)
    return Bins(count, *(np.bincount(place, of, bins) / there for of in (score, label)))


def calibration_error(found: Bins) -> float:
    """Return the expected calibration error: the mean gap of a bin, weighted by its examples."""
    gap = np.abs(found.score - found.share)
    return float(np.nansum(gap * found.examples) / found.examples.sum())


def _reliability(axes: Axes, one: Predicted) -> list[float]:
    """Draw the diagram and return the calibration error of each seed."""
    seeds = [binned(np.clip(score[:, 0], 0, 1), one.label) for score in one.scores]
    weight = np.mean([found.examples for found in seeds], axis=0) / len(one.ids)
    axes.bar(np.arange(BINS) / BINS, weight, 1 / BINS, align="edge", color="0.85", zorder=1)
    axes.plot([0, 1], [0, 1], **style.ZERO)
    shown = []
    for place in range(BINS):
        if there := [found for found in seeds if found.examples[place]]:
            score = float(np.mean([found.score[place] for found in there]))
            shown.append((score, _share(there, place)))
    style.points(axes, shown, style.look(0))
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    return [calibration_error(found) for found in seeds]


def _share(there: list[Bins], place: int) -> Interval:
    """Return a bin's share: its interval is over its examples for one seed, else over seeds."""
    found = interval([one.share[place] for one in there])
    if found.low is None or found.high is None:
        return wilson(found.mean, there[0].examples[place])
    return found._replace(low=max(0.0, found.low), high=min(1.0, found.high))


def wilson(share: float, count: float) -> Interval:
    """Return a share of `count` examples with its 95 % interval (Wilson, 1927)."""
    ratio = NORMAL**2 / count
    middle = (share + ratio / 2) / (1 + ratio)
    half = float(np.sqrt(ratio * share * (1 - share) + ratio**2 / 4)) / (1 + ratio)
    return Interval(share, middle - half, middle + half)


_EDGE = 0.03
"""Room beyond the lowest and the highest label, as a share of their distance."""


def sts_scatter(options: StsScatter, inputs: Inputs) -> Drawn:
    """Draw a panel per variant, on dev: each example's label and mean prediction."""
    task = options.task
    metric = METRIC_TITLES[TASKS[task].metric]

    def draw(axes: Axes, one: Predicted) -> list[str]:
        _scatter(axes, one, TASKS[task].low, TASKS[task].high)
        scores = [score_task(task, values, one.label) for values in one.prediction]
        return [mean_and_ends(metric.rpartition(" ")[2], scores)]

    figure, found, absent = panel_each(inputs, task, 2.75, draw)
    if not found:
        return figure, absent
    items = "pairs" if TASKS[task].pair else "examples"
    return figure, [
        f"n = {len(found[0].ids)} dev {items}; points: "
        f"{mean_of(len(one.prediction) for one in found)}. "
        f"Line: prediction = label. Bars: shares of all {items}. Above: "
        f"{over_seeds(found, metric)}.",
        floor_note(task, found[0]),
        *absent,
    ]


def _scatter(axes: Axes, one: Predicted, low: float, high: float) -> None:
    edge = _EDGE * (high - low)
    mean = one.prediction.mean(axis=0)
    reach = (min(low, float(mean.min())) - edge, max(high, float(mean.max())) + edge)
    axes.plot([low, high], [low, high], **style.ZERO)
    axes.scatter(one.label, mean, s=3, color=style.look(0)["color"], alpha=0.4, lw=0, zorder=3)
    axes.set(xlim=(low - edge, high + edge), ylim=reach)
    axes.set(xlabel=f"label ({low:g} to {high:g})", ylabel="prediction")
    above = axes.inset_axes((0, 1.02, 1, 0.14), sharex=axes)
    beside = axes.inset_axes((1.02, 0, 0.14, 1), sharey=axes)
    sides: Any = ((above, one.label, "vertical"), (beside, mean, "horizontal"))
    for side, values, way in sides:
        side.hist(values, bins=20, orientation=way, color="0.6")
        side.set_axis_off()
