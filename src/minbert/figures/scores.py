"""Figures of scores: a row per variant; points against a setting; published ones against ours."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from minbert.base.errors import UserError
from minbert.base.progress import some
from minbert.evaluate.bootstrap import LAST
from minbert.evaluate.reading import Of
from minbert.evaluate.seeds import Interval, ranked
from minbert.figures import style
from minbert.figures.read import (
    CROSSED,
    FLOOR,
    NAMED,
    OVER,
    Drawn,
    Inputs,
    Means,
    points_note,
    published,
    recorded_as,
    task_title,
    title_of,
)
from minbert.spec.figures import Ladder, Options, PublishedReproduced, Sweep
from minbert.spec.task import TASKS

LABEL = 38  # characters of a row's label: more would leave no room for the panels
_TITLES = 72  # characters of all panels' titles side by side

BOOTSTRAP = "examples and seeds (bootstrap), not widened for the number of claims"
"""What an interval of gains is over."""

_SECOND: dict[str, style.Look] = {
    "published": style.look(2) | {"markerfacecolor": "white"},
    "best epoch": style.look(4) | {"markerfacecolor": "white"},
}
"""The looks of second series, which are drawn below the middle of a row."""


def draw_rows(
    labels: Mapping[str, str], panels: Mapping[str, Means], zero: bool = False
) -> tuple[Figure, str]:
    """Return a figure of panels that share rows, and the note on the points of the first series.

    Rows have these labels from the top. A panel has a title, below it, and series by label: points,
    bars and the floor of each row. At `zero`, if shown, values are equal: they are gains, whose
    intervals are over examples, too. Long labels are cut, and titles wrapped.
    """
    noted = list[Interval]()
    figure, every = style.panels(len(panels), 0.55 + 0.155 * len(labels), len(panels), sharey=True)
    figure.set_figwidth(style.WIDE)
    for axes, (title, series) in zip(every, panels.items(), strict=True):
        shown = [Interval(0.0)] * zero
        for label, found in series.items():
            look, lower = _SECOND.get(label, style.look(0)), 0.22 * (label in _SECOND)
            for row, name in enumerate(labels):
                if one := found.get(name):
                    shown.append(one)
                    if not lower:
                        noted.append(one)
                    style.point(axes, one, row + lower, look, label)
                    if one.floor is not None:
                        shown.append(Interval(one.floor))
                        axes.vlines(one.floor, row - 0.5, row + 0.5, **style.FLOOR)
        if zero:
            axes.axvline(0, **style.ZERO)
        axes.set_xlim(style.ends(shown))
        axes.set_xlabel(textwrap.fill(title, _TITLES // len(panels)))
        axes.set_yticks(range(len(labels)), [style.shorten(of, LABEL) for of in labels.values()])
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=4, steps=[1, 2, 5, 10])
    return figure, points_note(noted, BOOTSTRAP if zero else OVER)


def ranking(_: Options, inputs: Inputs) -> Drawn:
    """Draw all variants of one paper by their scores on dev.

    The first is the paper's best, as everywhere (`evaluate.seeds`); rows that are the best of
    others are left out. Variants without an overall score come last.
    """
    scores = inputs.read_scores(inputs.about)[0]
    best = [of.variant for of in ranked(scores, inputs.rule)]
    chosen = inputs.means.get(inputs.rule, {}).keys() - best
    there = set().union(*inputs.means.values()) - chosen
    labels = {name: inputs.variants[name] for name in (*best, *inputs.variants) if name in there}
    panels = {
        title_of(measure): {"": found}
        for measure, found in inputs.means.items()
        if found.keys() & labels.keys()
    }
    others = [label for name, label in inputs.variants.items() if name in chosen]
    figure, note = draw_rows(labels, panels)
    return figure, [
        f"Overall: {inputs.overall}, on dev. {FLOOR}",
        note,
        f"Not ranked, as the best of others: {some(others, NAMED)}." * bool(others),
    ]


def ladder(options: Ladder, inputs: Inputs) -> Drawn:
    """Draw the rows in their order, each compared with the row above or, if named, `over`."""
    labels = inputs.variants
    pairs = {name: options.over.get(name, above) for above, name in pairwise(labels)}
    steps = {n: step(labels[n], labels[other], options.names) for n, other in pairs.items()}
    panels = {f"{title_of(of)} gain": series for of, series in inputs.gains(pairs).items()}
    others = [
        f"; {steps[name]} against {labels[pairs[name]]}"
        for above, name in pairwise(labels)
        if pairs[name] != above
    ]
    first, *_ = labels.values()
    figure, note = draw_rows(steps, panels, zero=True)
    return figure, [
        f"Scores on dev; scales differ. Overall: {inputs.overall}.",
        f"Each row against the one above, the first against {first}{''.join(others)}. "
        "Crossed if one of the two is not clearly above its floor.",
        note,
    ]


_PLUS = " + "


def step(label: str, other: str, names: Mapping[str, str]) -> str:
    """Return what `label` adds to `other`: "+ GS", or "MP → MTP" if it replaces something.

    What is added is spelled out if it is among `names`: "+ gradient surgery (GS)".
    """
    here, there = label.split(_PLUS), other.split(_PLUS)
    added = _PLUS.join(
        f"{names[part]} ({part})" if part in names else part for part in here if part not in there
    )
    gone = _PLUS.join(part for part in there if part not in here)
    if gone:
        return f"{gone} \u2192 {added}" if added else f"without {gone}"
    return f"+ {added}" if added else label


def transfer(_: Options, inputs: Inputs) -> Drawn:
    """Draw the variants that start from a model of one task and train another, on dev.

    Each is compared with the model that it starts from, which was trained on each task alone and is
    among the variants, too: what it gains on the second task, and what is left of the first. Raises
    `UserError` for one whose last stage does not train one task and only score one more.
    """
    moved: dict[str, list[str]] = {}  # the two tasks of each, and the variant that it starts from
    for name in inputs.variants:
        last = inputs.about["stages"][name][-1]
        if start := last["start"]:
            trained = {task: of["trained"] for task, of in last["spec"]["tasks"].items()}
            tasks = sorted(trained, key=trained.__getitem__)
            if sorted(trained.values()) != [False, True]:
                raise UserError(
                    f"figure 'transfer': variant '{name}', of {' and '.join(tasks)}, starts from "
                    f"{start}; expected one task to train, one only to score (`evaluate_only`); "
                    "leave it out"
                )
            moved[name] = [*tasks, start.partition("/")[0]]
    gains = inputs.gains({name: start for name, (_, _, start) in moved.items()})
    panels: dict[str, Means] = {}
    for title, at in ("Gain on the second task", 1), ("Change on the first task", 0):
        panels[title] = {"ours": {}, "published": {}}
        for name, tasks in moved.items():
            for label, found in gains.get(tasks[at], {}).items():
                if name in found:
                    panels[title][label][name] = found[name]
    if not any(series["ours"] for series in panels.values()):
        raise style.NothingToShow
    labels = {n: f"{task_title(a)} \u2192 {task_title(b)}" for n, (a, b, _) in moved.items()}
    figure, note = draw_rows(labels, panels, zero=True)
    return figure, [
        "A model of the first task was trained on the second. Each is compared with the model that "
        "it starts from, trained on that task alone; on dev, in accuracy, of STS in Pearson r. "
        "Crossed if one of the two is not clearly above its floor.",
        note,
    ]


def stability(_: Options, inputs: Inputs) -> Drawn:
    """Draw how far each variant's dev scores spread over the last epochs, and its best.

    A run of fewer epochs would look steady for its length alone, so it has no spread.
    """
    runs = inputs.last_stages()
    panels: dict[str, Means] = {}
    for measure in inputs.measures(runs):
        last, best = dict[str, Interval](), dict[str, Interval]()
        for name, curves in runs.items():
            if (curve := curves.get(("dev", *recorded_as(measure)))) is not None:
                learned = inputs.means.get(measure, {}).get(name, Interval(0.0)).learned
                best[name] = Interval(curve.max().mean(), learned=learned)
                if len(end := curve.tail(LAST)) == LAST:
                    ends = end.min().mean(), end.max().mean()
                    last[name] = Interval(end.mean().mean(), *ends, learned=learned)
        panels[title_of(measure)] = {f"last {LAST} epochs": last, "best epoch": best}
    labels = {name: inputs.variants[name] for name in runs}
    return draw_rows(labels, panels)[0], [
        f"Bars: smallest to largest dev score of the last {LAST} epochs, if a run has so many; "
        f"points: their mean; hollow: the best epoch by a panel's own score; mean over seeds.",
        f"Rows have only the tasks of a variant's last stage. {CROSSED}",
    ]


_ASIDE = 0.08  # of two values' distance: how far the points of two lines at one value stand apart


def _against(
    inputs: Inputs, lines: Sequence[tuple[str, Mapping[str, float]]], xlabel: str
) -> tuple[Figure, Means, str]:
    """Return a figure with a panel for each measure, what they show, and the note on its points.

    A line has a label, and its variants stand at these places on the x axis.
    """
    shown = replace(inputs, variants={name: "" for _, places in lines for name in places})
    figure, panels = style.panels(len(shown.means), 1.75, 2)
    for axes, (measure, found) in zip(panels, shown.means.items(), strict=True):
        for number, (label, places) in enumerate(lines):
            look = style.look(number)
            names = sorted(found.keys() & places, key=places.__getitem__)
            at, means = [places[name] for name in names], [found[name].mean for name in names]
            axes.plot(at, means, **look | {"marker": ""})
            for name in names:
                style.point(axes, places[name], found[name], look, label)
        floors = shown.draw_floors(axes, found, measure)
        limits = style.ends([*found.values(), *map(Interval, floors)])
        axes.set(xlabel=xlabel, ylabel=title_of(measure), ylim=limits)
    every = [one for found in shown.means.values() for one in found.values()]
    return figure, shown.means, points_note(every)


def sweep(options: Sweep, inputs: Inputs) -> Drawn:
    """Draw overall score and each task on dev, against a setting's values side by side."""
    ticks = sorted({x for of in options.lines.values() for x in of.values()})
    lines = []
    for number, (label, values) in enumerate(options.lines.items()):
        aside = _ASIDE * (number - (len(options.lines) - 1) / 2)
        lines.append((label, {name: ticks.index(x) + aside for name, x in values.items()}))
    figure, _, note = _against(inputs, lines, options.x)
    for axes in figure.axes:
        axes.set_xticks(range(len(ticks)), [f"{x:g}" for x in ticks])
    return figure, [
        f"Scores on dev; overall: {inputs.overall}. {FLOOR}",
        note,
    ]


def score_parameters(_: Options, inputs: Inputs) -> Drawn:
    """Draw all variants of one paper: overall score and each task on dev, against parameters."""
    counts = {row["variant"]: row["parameters"] for row in inputs.about["rows"]}
    sizes = {name: counts[name] / 1e6 for name in inputs.variants if counts.get(name)}
    lines = [(inputs.variants[name], {name: sizes[name]}) for name in sizes]
    figure, shown, note = _against(inputs, lines, "Parameters (millions)")
    for axes, found in zip(figure.axes, shown.values(), strict=True):
        x, means = zip(*sorted((sizes[name], one.mean) for name, one in found.items()), strict=True)
        best = np.maximum.accumulate(means)
        axes.step(x, best, where="post", **style.ZERO, label="front")
    return figure, [
        "Scores on dev of variants whose parameters are counted; overall: "
        f"{inputs.overall}. Front: the highest mean of variants with as many or fewer parameters. "
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
    said, over = "Variants that were scored on test.", OVER
    if options.against == "published":
        said = "Published scores, where we have one on the same split."
        over = "seeds for one more run, as a published score is of one (Student t)"
    figure, panels = style.panels(len(shown), 2.5)
    for axes, (title, points) in zip(panels, shown.items(), strict=True):
        limits = style.ends(side for point in points for side in point[:2])
        axes.plot(limits, limits, **style.ZERO, label="equal scores")
        axes.set(
            title=f"{title}\nn = {len(points)}",
            xlim=limits,
            ylim=limits,
            xlabel=options.against,
            ylabel="test" if options.against == "dev" else "ours",
        )
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
    _, means = inputs.read_scores(about)
    if against == "published":
        return [
            (of, Interval(value), single_run(means[of]))
            for of, value in published(about)
            if of in means
        ]
    known = [of for of in means if of.split == "dev" and of.measure in (about["rule"], *TASKS)]
    tests = {of: of._replace(split="test") for of in known}
    return [(of, means[of], means[test]) for of, test in tests.items() if test in means]


def single_run(of_mean: Interval) -> Interval:
    """Return a mean over n seeds with the 95 % interval of one more run, as a published number is.

    mean +- t * s * sqrt(1 + 1 / n), which is sqrt(n + 1) times as wide as the mean's own. None if
    there is one run, which says nothing of others.
    """
    mean, _, high, n, *_ = of_mean
    if n == 1 or high is None:
        return Interval(mean, learned=of_mean.learned)
    half = (n + 1) ** 0.5 * (high - mean)
    return of_mean._replace(low=mean - half, high=mean + half)
