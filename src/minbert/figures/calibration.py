"""How far a paraphrase score can be taken for a probability: reliability diagrams."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field

from minbert.evaluate.statistics import interval
from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.figures.predicted import Predicted, of_variants
from minbert.figures.spec import FigureSpec, render
from minbert.figures.words import mean_words

TASK = "para"
Values = NDArray[np.float64]


class Spec(FigureSpec):
    """A panel a variant, on dev; `bins` are of equal width."""

    variants: dict[str, str] = Field(min_length=1)
    bins: int = Field(default=10, ge=2, le=50)


class Bins(NamedTuple):
    """What of one seed falls into each bin [bins]: examples, mean score, share of class 1."""

    examples: Values
    score: Values
    share: Values


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the reliability diagrams of `spec` (see `Spec`) from dev predictions.

    For each bin of the score of "paraphrase" the share of pairs in it that are one, and behind it
    the share of all pairs that are in the bin. The expected calibration error is that of Guo et al.
    (2017, section 2), on the score of class 1.
    """
    render("calibration", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    found, absent = of_variants(inputs, spec.variants, TASK)
    if not found:
        return style.nothing(spec.title), absent
    figure, panels = style.panels(len(found), 2.5)
    for axes, (name, one) in zip(panels, found.items(), strict=True):
        _panel(axes, one, spec.bins, spec.variants[name])
    figure.suptitle(spec.title)
    first = next(iter(found.values()))
    single = all(len(one.seeds) == 1 for one in found.values())
    bars = "Wilson over a bin's pairs (1 seed)" if single else "Student t over seeds"
    said = f"n = {len(first.ids)} dev pairs in {spec.bins} bins; grey: share of pairs in each."
    error = f"ECE: expected calibration error (Guo et al., 2017). 95 % intervals: {bars}."
    return figure, [said, error, *absent]


def binned(score: Values, label: Values, bins: int) -> Bins:
    """Return the bins of one seed's `score` [n] in [0, 1] and `label` [n] in {0, 1}."""
    place = np.clip((score * bins).astype(int), 0, bins - 1)
    count = np.bincount(place, minlength=bins).astype(float)
    there = np.where(count > 0, count, np.nan)
    return Bins(
        count,
        np.bincount(place, score, bins) / there,
        np.bincount(place, label, bins) / there,
    )


def calibration_error(found: Bins) -> float:
    """Return the expected calibration error: the mean gap of a bin, weighted by its examples."""
    gap = np.abs(found.score - found.share)
    return float(np.nansum(gap * found.examples) / found.examples.sum())


def wilson(share: Values, count: Values, z: float = 1.959964) -> tuple[Values, Values]:
    """Return the 95 % interval of each share of `count` examples (Wilson, 1927)."""
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    spread = share * (1 - share) / count + z**2 / (4 * count**2)
    half = z * np.sqrt(spread) / (1 + z**2 / count)
    return middle - half, middle + half


def _panel(axes: Axes, one: Predicted, bins: int, label: str) -> None:
    seeds = [binned(np.clip(score[:, 0], 0, 1), one.label, bins) for score in one.scores]
    look = style.look(0)
    width = 1 / bins
    weight = np.mean([found.examples for found in seeds], axis=0) / len(one.ids)
    axes.bar(np.arange(bins) * width, weight, width, align="edge", color="0.85", zorder=1)
    axes.plot([0, 1], [0, 1], color="0.5", linewidth=0.8, zorder=2)
    for place in range(bins):
        there = [found for found in seeds if found.examples[place]]
        if not there:
            continue
        mean = float(np.mean([found.share[place] for found in there]))
        low, high = _interval(there, place)
        axes.errorbar(
            [np.mean([found.score[place] for found in there])],
            [mean],
            yerr=[[max(0.0, mean - low)], [max(0.0, high - mean)]],
            color=look.color,
            marker=look.marker,
            elinewidth=0.9,
            linestyle="none",
            zorder=3,
        )
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), box_aspect=1)
    axes.set(xlabel="score of 'paraphrase'", ylabel="share of paraphrases")
    errors = [calibration_error(found) for found in seeds]
    axes.set_title(f"{style.shorten(label, 30)}\nECE {mean_words(errors)}", fontsize=7.5)


def _interval(there: list[Bins], place: int) -> tuple[float, float]:
    """Return the interval of a bin's share: over its examples for one seed, else over seeds."""
    if len(there) == 1:
        share, count = there[0].share[place : place + 1], there[0].examples[place : place + 1]
        low, high = wilson(share, count)
        return float(low[0]), float(high[0])
    found = interval([one.share[place] for one in there])
    return max(0.0, found.low or 0.0), min(1.0, found.high if found.high is not None else 1.0)
