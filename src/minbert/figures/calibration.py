"""How far a score of class 1 can be read as a probability: reliability diagrams."""

from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from minbert.evaluate.predictions import Predicted
from minbert.evaluate.statistics import interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, Values
from minbert.figures.predicted import (
    floor_note,
    over_seeds,
    panel_each,
    set_head,
    standing,
)
from minbert.spec.figures import Calibration
from minbert.spec.task import TASKS


def plot(options: Calibration, inputs: Inputs) -> Drawn:
    """Draw a diagram per variant, on dev, with the share of examples behind.

    The expected calibration error is that of Guo et al. (2017, section 2), on the score of class 1.
    """
    task, bins = options.task, options.bins
    draw = partial(_panel, bins=bins, task=task)
    figure, found, absent = panel_each(inputs, task, 2.5, draw)
    if not found:
        return figure, absent
    items = "pairs" if TASKS[task].pair else "examples"
    bars = f"Wilson over a bin's {items} (1 seed)"
    if any(len(one.prediction) > 1 for one in found):
        bars = f"Student t over seeds; where one alone has {items}, Wilson over these"
    ece = over_seeds(found, "expected calibration error (Guo et al., 2017)")
    return figure, [
        f"n = {len(found[0].ids)} dev {items} in {bins} bins; grey: share of {items} in each.",
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


def binned(score: Values, label: Values, bins: int) -> Bins:
    """Return the bins of one seed's `score` [n] in [0, 1] and `label` [n] in {0, 1}."""
    place = np.clip((score * bins).astype(int), 0, bins - 1)
    count = np.bincount(place, minlength=bins).astype(float)
    there = np.where(count > 0, count, np.nan)
    return Bins(count, *(np.bincount(place, of, bins) / there for of in (score, label)))


def calibration_error(found: Bins) -> float:
    """Return the expected calibration error: the mean gap of a bin, weighted by its examples."""
    gap = np.abs(found.score - found.share)
    return float(np.nansum(gap * found.examples) / found.examples.sum())


def wilson(share: float, count: float, z: float = 1.959964) -> tuple[float, float]:
    """Return the 95 % interval of a share of `count` examples (Wilson, 1927)."""
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    spread = share * (1 - share) / count + z**2 / (4 * count**2)
    half = float(z * np.sqrt(spread) / (1 + z**2 / count))
    return middle - half, middle + half


def _panel(axes: Axes, one: Predicted, label: str, bins: int, task: str) -> None:
    seeds = [binned(np.clip(score[:, 0], 0, 1), one.label, bins) for score in one.scores]
    width = 1 / bins
    weight = np.mean([found.examples for found in seeds], axis=0) / len(one.ids)
    axes.bar(np.arange(bins) * width, weight, width, align="edge", color="0.85", zorder=1)
    axes.plot([0, 1], [0, 1], color="0.5", linewidth=0.8, zorder=2)
    for place in range(bins):
        there = [found for found in seeds if found.examples[place]]
        if there:
            mean = float(np.mean([found.share[place] for found in there]))
            score = float(np.mean([found.score[place] for found in there]))
            low, high = _interval(there, place)
            reach = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
            style.points(axes, [score], [mean], style.look(0), yerr=reach)
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), box_aspect=1)
    name = (TASKS[task].names or ("0", "1"))[1]
    axes.set(xlabel=f"score of '{name}'", ylabel=f"share of '{name}'")
    errors = [calibration_error(found) for found in seeds]
    set_head(axes, label, "ECE", errors, standing(task, one))


def _interval(there: list[Bins], place: int) -> tuple[float, float]:
    """Return the interval of a bin's share: over its examples for one seed, else over seeds."""
    if len(there) == 1:
        return wilson(float(there[0].share[place]), float(there[0].examples[place]))
    found = interval([one.share[place] for one in there])
    return max(0.0, found.low or 0.0), min(1.0, found.high if found.high is not None else 1.0)
