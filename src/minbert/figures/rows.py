"""Figures with a row per variant: rankings, ladders of an ablation, spreads of last epochs."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.base.errors import UserError, did_you_mean
from minbert.evaluate.predictions import read_predicted
from minbert.evaluate.seeds import ranked
from minbert.evaluate.statistics import Interval
from minbert.figures import gains, style
from minbert.figures.histories import Of, curve_of, dev_measures, last_stages
from minbert.figures.inputs import Drawn, Inputs, Values, listed, mean_of, present
from minbert.figures.scored import (
    CUT,
    FLOOR,
    NOT_ABOVE,
    crossed_note,
    measure_of,
    paper_scores,
    seeds_note,
    title_of,
)
from minbert.spec.figures import Ladder, OfSplit, Options
from minbert.spec.task import TASKS

LABEL = 38  # characters of a row's label: more would leave no room for the panels
_TITLES = 110  # characters of all panels' titles and the longest label side by side


def rows_of_panels(labels: Sequence[str], titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels that share rows, labelled from the top by `labels`.

    Each panel has one of `titles` below it, in lines that fit there.
    """
    short = [style.shorten(label, LABEL) for label in labels]
    across = max(8, (_TITLES - max(map(len, short))) // len(titles))
    wrapped = ["\n".join(textwrap.fill(line, across) for line in t.splitlines()) for t in titles]
    lines = max(title.count("\n") + 1 for title in wrapped)
    height = 0.25 + 0.155 * len(labels) + 0.15 * lines
    figure, panels = style.panels(len(titles), height, len(titles), sharey=True)
    figure.set_figwidth(style.WIDE)
    for axes, title in zip(panels, wrapped, strict=True):
        axes.set_xlabel(title)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=3, steps=[1, 2, 5, 10]))
    panels[0].set_yticks(range(len(labels)), short)
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    return figure, panels


def marks(
    axes: Axes,
    found: Sequence[Interval | None],
    label: str = "",
    look: style.Look = style.LOOKS[0],
    lower: float = 0.0,
    **more: Any,
) -> None:
    """Draw each row's mean as a point and its interval as a bar, `lower` rows further down."""
    shown = [(row + lower, one) for row, one in enumerate(found) if one]
    style.points(axes, shown, look, label, across=True, **more)


def floor_lines(axes: Axes, found: Sequence[Interval | None]) -> list[float]:
    """Draw each row's floor, and return them."""
    there = {n: one.floor for n, one in enumerate(found) if one and one.floor is not None}
    if there:
        rows = [n - 0.5 for n in there], [n + 0.5 for n in there]
        axes.vlines(list(there.values()), *rows, **style.FLOOR)
    return list(there.values())


def ranking(options: OfSplit, inputs: Inputs) -> Drawn:
    """Draw all variants of one paper by their scores on a split.

    The first is the paper's best, as everywhere (`evaluate.seeds`); rows that are the best of
    others are left out. Variants without an overall score come last, by their mean over tasks.
    """
    labels, split = inputs.variants, options.split
    paper = paper_scores(inputs, split)

    def over_tasks(name: str) -> float:
        of_tasks = (paper.get(name, task) for task in TASKS)
        return fmean(one.mean for one in of_tasks if one)

    best_first = [n for n in ranked(paper.scores, paper.rule, split) if n in paper.shown]
    whole = {name for name in labels if paper.get(name, paper.rule)}
    parts = [name for name in labels if paper.shown[name] and name not in whole]
    names = [*best_first, *sorted(parts, key=over_tasks, reverse=True)]
    if not names:
        return style.nothing(), paper.absent
    titles = [f"{title_of(m)}{_counted(inputs, names, split, m)}" for m in paper.measures]
    figure, panels = rows_of_panels([labels[name] for name in names], titles)
    shown: list[Interval] = []
    for axes, measure in zip(panels, paper.measures, strict=True):
        found = [paper.get(name, measure) for name in names]
        marks(axes, found)
        floors = floor_lines(axes, found)
        there = [one for one in found if one]
        axes.set_xlim(style.ends(there, floors))
        shown += there
    best_of = [labels[n] for n in labels if n in whole and n not in best_first]
    return figure, [
        f"Overall: {paper.overall}, on {split}. {FLOOR}",
        crossed_note(shown),
        seeds_note(shown),
        f"Not ranked: {listed(best_of)}, the best of others." * bool(best_of),
        *paper.absent,
    ]


def _counted(inputs: Inputs, names: Sequence[str], split: str, measure: str) -> str:
    """Return the line on how many dev examples a task's scores are over, if that is one number."""
    files = [inputs.predictions.get(name, {}).get(measure, {}) for name in names]
    there = [path for of in files for path in present(of).values()][:1]
    if split != "dev" or not there or inputs.about["selection_split"] == "both":
        return ""
    return f"\nn = {len(read_predicted(there, measure).ids)}"


_PLUS = " + "
_AT_FLOOR = "ours: a compared row is at its floor"


def ladder(options: Ladder, inputs: Inputs) -> Drawn:
    """Draw the rows in their order, each compared with the row above or, if named, `over`."""
    labels = inputs.variants
    known = {part for label in labels.values() for part in label.split(_PLUS)}
    for name in options.names:
        if name not in known:
            raise UserError(
                f"figure 'ladder', option 'names': no variant's label has '{name}' between its "
                f"pluses.{did_you_mean(name, known)}"
            )
    pairs = [(name, options.over.get(name, before)) for before, name in pairwise(labels)]
    paper = paper_scores(inputs)
    if not paper.measures:
        return style.nothing(), paper.absent
    steps = [step(labels[name], labels[other], options.names) for name, other in pairs]
    titles = [title_of(m).replace("Overall", "overall") for m in paper.measures]
    figure, panels = rows_of_panels(steps, [f"Gain in\n{title}" for title in titles])
    published = gains.published(inputs.about["rows"], paper.rule)
    systems = gains.systems(inputs)
    for axes, measure in zip(panels, paper.measures, strict=True):
        low = [paper.flat_one(pair, measure) for pair in pairs]
        ours = [gains.gain(systems, *pair, measure) for pair in pairs]
        said = [gains.printed(published, *pair, measure) for pair in pairs]
        axes.axvline(0, **style.ZERO)
        for at_floor, label, face in ((False, "ours", None), (True, _AT_FLOOR, "white")):
            shown = [one if at is at_floor else None for one, at in zip(ours, low, strict=True)]
            marks(axes, shown, label, markerfacecolor=face)
        marks(axes, said, "published", style.look(2), 0.22, markerfacecolor="white")
        axes.set_xlim(style.ends([one for one in (*ours, *said) if one], [0.0]))
    seeds = mean_of(len(of) for of in paper.shown.values() if of)
    over = "examples, not over seeds" if seeds == "1 seed" else "examples and seeds"
    apart = [
        f"{name} against {labels[of]}"
        for name, (_, of), above in zip(steps, pairs, labels, strict=False)
        if of != above
    ]
    first = next(iter(labels.values()))
    return figure, [
        f"Scores on dev{'; scales differ' * (len(panels) > 1)}. Overall: {paper.overall}.",
        "; ".join([f"Each row against the one above, the first against {first}", *apart]) + ".",
        f"At its floor: {NOT_ABOVE}." * bool(paper.flat),
        f"Gains: {seeds}; bars: 95 % interval over {over} (bootstrap). {CUT}",
        *paper.absent,
    ]


def step(label: str, other: str, names: Mapping[str, str]) -> str:
    """Return what `label` adds to `other`: "+ GS", or "MP → MTP" if it replaces something.

    What is added is spelled out if it is among `names`: "+ gradient surgery (GS)".
    """
    here, there = label.split(_PLUS), other.split(_PLUS)
    spelled = {part: f"{names[part]} ({part})" if part in names else part for part in here}
    added = _PLUS.join(spelled[part] for part in here if part not in there)
    gone = _PLUS.join(part for part in there if part not in here)
    if gone:
        return f"{gone} \u2192 {added}" if added else f"without {gone}"
    return f"+ {added}" if added else label


LAST = 5
"""The epochs that the spread is over."""


def stability(_: Options, inputs: Inputs) -> Drawn:
    """Draw how far each variant's dev scores spread over the last epochs, and its best.

    A run of fewer epochs would look steady for its length alone, so it has no spread.
    """
    found, absent = last_stages(inputs)
    if not found:
        return style.nothing(), absent
    measures = dev_measures(inputs, found)
    labels = [inputs.variants[name] for name in found]
    figure, panels = rows_of_panels(labels, [title_of(task) for task, _ in measures])
    short: dict[str, int] = {}
    paper = paper_scores(inputs)
    shown: list[Interval] = []
    for axes, measure in zip(panels, measures, strict=True):
        spread: list[Interval | None] = [None] * len(found)
        best: list[Interval | None] = [None] * len(found)
        for row, (name, runs) in enumerate(found.items()):
            if (curve := curve_of(runs, Of("dev", *measure))) is None:
                continue
            score = paper.get(name, measure_of(*measure))
            learned = score.learned if score else None
            best[row] = Interval(float(curve.values.max(axis=1).mean()), learned=learned)
            if len(curve.epochs) < LAST:
                short[inputs.variants[name]] = len(curve.epochs)
            else:
                spread[row] = _spread(curve.values[:, -LAST:])._replace(learned=learned)
        marks(axes, spread, f"last {LAST} epochs")
        marks(axes, best, "best epoch", style.look(4), 0.2, markerfacecolor="white")
        there = [one for one in (*spread, *best) if one]
        axes.set_xlim(style.ends(there))
        shown += there
    fewer = listed([f"{label} ({count})" for label, count in short.items()])
    return figure, [
        f"Bars: smallest to largest dev score of the last {LAST} epochs; points: their "
        f"mean; hollow: the best epoch of each score; {mean_of(map(len, found.values()))}.",
        "Rows have only the tasks of a variant's last stage.",
        f"Too few epochs for a spread: {fewer}." * bool(short),
        crossed_note(shown),
        *absent,
    ]


def _spread(values: Values) -> Interval:
    """Return the mean of scores [seeds, epochs], and of each seed's smallest and largest."""
    low, high = float(values.min(axis=1).mean()), float(values.max(axis=1).mean())
    mean = min(max(float(values.mean()), low), high)  # of equal scores it may be off by a rounding
    return Interval(mean, low, high)
