"""Scores as points: against parameters or a setting; published ones against ours; dev and test."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from minbert.evaluate.reading import Of
from minbert.evaluate.seeds import Interval
from minbert.figures import style
from minbert.figures.read import (
    FLOOR,
    OVER,
    Drawn,
    Inputs,
    PaperScores,
    points_note,
    published,
    read_means,
    title_of,
)
from minbert.spec.figures import Options, PublishedReproduced, Sweep
from minbert.spec.task import TASKS

_ASIDE = 0.08  # of two values' distance: how far the points of two lines at one value stand apart


def _against(
    paper: PaperScores, lines: Sequence[tuple[str, Mapping[str, float]]], xlabel: str
) -> tuple[Figure, str]:
    """Return a figure with a panel for each measure, and the note on its points.

    A line has a label, and its variants stand at these places on the x axis.
    """
    figure, panels = style.panels(len(paper.means), 1.75, 2)
    for axes, (measure, found) in zip(panels, paper.means.items(), strict=True):
        for number, (label, places) in enumerate(lines):
            look = style.look(number)
            shown = sorted(found.keys() & places, key=places.__getitem__)
            at, means = [places[name] for name in shown], [found[name].mean for name in shown]
            axes.plot(at, means, **look | {"marker": ""})
            for name in shown:
                style.point(axes, places[name], found[name], look, label)
        floors = paper.draw_floors(axes, found, measure)
        limits = style.ends(found.values(), floors)
        axes.set(xlabel=xlabel, ylabel=title_of(measure), ylim=limits)
    return figure, points_note([one for found in paper.means.values() for one in found.values()])


def sweep(options: Sweep, inputs: Inputs) -> Drawn:
    """Draw overall score and each task on dev, against a setting's values side by side."""
    paper = PaperScores(inputs, {*options.named()})
    if not paper.means:
        return None
    ticks = sorted({x for of in options.lines.values() for x in of.values()})
    lines = []
    for number, (label, values) in enumerate(options.lines.items()):
        aside = _ASIDE * (number - (len(options.lines) - 1) / 2)
        lines.append((label, {name: ticks.index(x) + aside for name, x in values.items()}))
    figure, note = _against(paper, lines, options.x)
    for axes in figure.axes:
        axes.set_xticks(range(len(ticks)), [f"{x:g}" for x in ticks])
    return figure, [
        f"Scores on dev; overall: {paper.overall}. {FLOOR}",
        note,
    ]


def score_parameters(_: Options, inputs: Inputs) -> Drawn:
    """Draw all variants of one paper: overall score and each task on dev, against parameters."""
    counts = {row["variant"]: row["parameters"] for row in inputs.about["rows"]}
    sizes = {name: counts[name] / 1e6 for name in inputs.variants if counts.get(name)}
    paper = PaperScores(inputs, sizes)
    if not paper.means:
        return None
    lines = [(inputs.variants[name], {name: sizes[name]}) for name in sizes]
    figure, note = _against(paper, lines, "Parameters (millions)")
    for axes, found in zip(figure.axes, paper.means.values(), strict=True):
        x, means = zip(*sorted((sizes[name], one.mean) for name, one in found.items()), strict=True)
        best = np.maximum.accumulate(means)
        axes.step(x, best, where="post", **style.ZERO, label="front")
    return figure, [
        "Scores on dev of variants whose parameters are counted; overall: "
        f"{paper.overall}. Front: the highest mean of variants with as many or fewer parameters. "
        f"{FLOOR}",
        note,
    ]


def published_reproduced(options: PublishedReproduced, inputs: Inputs) -> Drawn:
    """Draw each published number, or dev score, against our score on the paper's split, or test.

    Markers are hollow, so that those that lie on others hide none; of published scores on test they
    are filled.
    """
    found = {title_of(measure): list[tuple[Any, ...]]() for measure in (*TASKS, "overall")}
    for n, about in enumerate(inputs.papers):
        for of, x, y in _points(options.against, inputs, about):
            test = of.split == "test"
            look = style.look(n) | {"markersize": 4, "fillstyle": "full" if test else "none"}
            point = x, y, look, about["paper"] + ", on test" * test
            found[title_of(of.measure)].append(point)
    shown = {title: points for title, points in found.items() if points}
    if not shown:
        return None
    said, over = "Variants that were scored on test.", OVER
    if options.against == "published":
        said = "Numbers of the papers' tables, where we have a score on the same split."
        over = "seeds for a single run, as in the papers (Student t)"
    figure, panels = style.panels(len(shown), 2.5)
    for axes, (title, points) in zip(panels, shown.items(), strict=True):
        limits = style.ends(side for point in points for side in point[:2])
        axes.plot(limits, limits, **style.ZERO, label="equal scores")
        axes.set(xlim=limits, ylim=limits, title=f"{title}\nn = {len(points)}")
        axes.set(xlabel=options.against, ylabel="test" if options.against == "dev" else "ours")
        axes.locator_params(nbins=6, steps=[1, 2, 5, 10])
        for point in points:
            style.point(axes, *point)
    return figure, [
        f"{said} Overall: a plain or normalised mean, by each paper's own rule.",
        points_note([y for points in shown.values() for _, y, *_ in points], over),
    ]


def _points(
    against: str, inputs: Inputs, about: Mapping[str, Any]
) -> list[tuple[Of, Interval, Interval]]:
    """Return what a paper's points are of, and where they are."""
    _, means = read_means(inputs, about)
    if against == "published":
        return [
            (of, Interval(value), single_run(means[of]))
            for of, value in published(about)
            if of in means
        ]
    known = [of for of in means if of.split == "dev" and of.measure in (about["rule"], *TASKS)]
    tests = {of: means.get(of._replace(split="test")) for of in known}
    return [(of, means[of], test) for of, test in tests.items() if test]


def single_run(of_mean: Interval) -> Interval:
    """Return a mean over n seeds with the 95 % interval of one more run, as a published number is.

    mean +- t * s * sqrt(1 + 1 / n), which is sqrt(n + 1) times as wide as the mean's own. None if
    there is one run, which says nothing of others.
    """
    mean, low, high, n, *_ = of_mean
    if n == 1 or low is None or high is None:
        return Interval(mean, learned=of_mean.learned)
    wider = (n + 1) ** 0.5
    return of_mean._replace(low=mean - wider * (mean - low), high=mean + wider * (high - mean))
