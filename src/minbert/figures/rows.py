"""Figures with a row per variant: rankings, ladders of an ablation, spreads of last epochs."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.reading import read_predicted
from minbert.evaluate.seeds import Interval, ranked
from minbert.figures import style
from minbert.figures.histories import dev_measures, last_stages
from minbert.figures.inputs import Drawn, Inputs, listed, present
from minbert.figures.scored import CROSSED, FLOOR, PaperScores, gains, points_note, title_of
from minbert.spec.figures import Ladder, OfSplit, Options

LABEL = 38  # characters of a row's label: more would leave no room for the panels
_TITLES = 110  # characters of all panels' titles and the longest label side by side

Means = Sequence[Interval | None]
"""What a series shows, by row."""

_SECOND: dict[str, style.Look] = {
    "published": style.look(2) | {"markerfacecolor": "white"},
    "best epoch": style.look(4) | {"markerfacecolor": "white"},
}
"""The looks of second series, which are drawn below the middle of a row."""


def draw_rows(
    labels: Sequence[str],
    panels: Sequence[tuple[str, Mapping[str, Means]]],
    lines: Sequence[float] = (),
) -> Figure:
    """Return a figure of panels that share rows, labelled from the top.

    A panel has a title, below it, and series by label: points, bars and the floor of each row.
    `lines` are where values are equal. Long labels are cut, and titles wrapped.
    """
    short = [style.shorten(label, LABEL) for label in labels]
    across = (_TITLES - max(map(len, short))) // len(panels)
    figure, every = style.panels(len(panels), 0.55 + 0.155 * len(labels), len(panels), sharey=True)
    figure.set_figwidth(style.WIDE)
    for axes, (title, series) in zip(every, panels, strict=True):
        there = [one for means in series.values() for one in means if one]
        floors = [one.floor for one in there if one.floor is not None]
        for label, means in series.items():
            lower = 0.22 * (label in _SECOND)
            at = [(row + lower, one) for row, one in enumerate(means) if one]
            style.points(axes, at, _SECOND.get(label, style.look(0)), label, across=True)
            for row, one in at:
                if one.floor is not None:
                    axes.vlines(one.floor, row - 0.5, row + 0.5, **style.FLOOR)
        for line in lines:
            axes.axvline(line, **style.ZERO)
        axes.set_xlim(style.ends(there, [*lines, *floors]))
        axes.set_xlabel(textwrap.fill(title, across))
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=3, steps=[1, 2, 5, 10]))
    every[0].set_yticks(range(len(labels)), short)
    every[0].set_ylim(len(labels) - 0.4, -0.6)
    return figure


def ranking(options: OfSplit, inputs: Inputs) -> Drawn | None:
    """Draw all variants of one paper by their scores on a split.

    The first is the paper's best, as everywhere (`evaluate.seeds`); rows that are the best of
    others are left out. Variants without an overall score come last.
    """
    labels, split = inputs.variants, options.split
    paper = PaperScores(inputs, split)
    names = [of.variant for of in ranked(paper.scores, paper.rule, split)]
    parts = {of.variant for of in paper.means if not paper.get(of.variant, paper.rule)}
    names += [name for name in labels if name in parts]
    means = {m: [paper.get(name, m) for name in names] for m in paper.measures}
    panels = [
        (title_of(m) + _counted(inputs, split, m), {"": of}) for m, of in means.items() if any(of)
    ]
    if not panels:
        return None
    figure = draw_rows([labels[name] for name in names], panels)
    best_of = dict.fromkeys(labels[of.variant] for of in paper.means if of.variant not in names)
    return figure, [
        f"Overall: {paper.overall}, on {split}. {FLOOR}",
        points_note([one for of, one in paper.means.items() if of.variant in names]),
        f"Not ranked: {listed([*best_of])}, the best of others." * bool(best_of),
    ]


def _counted(inputs: Inputs, split: str, task: str) -> str:
    """Return how many dev examples a task's scores are over, if that is one number."""
    if split == "dev" and inputs.about["selection_split"] != "both":
        for of_tasks in inputs.predictions.values():
            for path in present(of_tasks.get(task, {})).values():
                return f" n\u00a0=\u00a0{len(read_predicted([path], task).ids)}"
    return ""


def ladder(options: Ladder, inputs: Inputs) -> Drawn | None:
    """Draw the rows in their order, each compared with the row above or, if named, `over`."""
    labels, paper = inputs.variants, PaperScores(inputs)
    if not paper.measures:
        return None
    pairs = [(name, options.over.get(name, before)) for before, name in pairwise(labels)]
    steps = [step(labels[name], labels[other], options.names) for name, other in pairs]
    gained = gains(inputs, paper, pairs)
    panels = []
    for measure in paper.measures:
        ours, published = zip(*(gained[*pair, measure] for pair in pairs), strict=True)
        panels.append((f"{title_of(measure)} gain", {"ours": ours, "published": published}))
    figure = draw_rows(steps, panels, [0.0])
    others = [
        f"; {name} against {labels[other]}"
        for name, (_, other), above in zip(steps, pairs, labels, strict=False)
        if other != above
    ]
    first = next(iter(labels.values()))
    return figure, [
        f"Scores on dev; scales differ. Overall: {paper.overall}.",
        f"Each row against the one above, the first against {first}{''.join(others)}. "
        "Crossed if one of the two is not above its floor.",
        points_note(
            [ours for ours, _ in gained.values() if ours], "examples and seeds (bootstrap)"
        ),
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


LAST = 5
"""The epochs that the spread is over."""


def stability(options: Options, inputs: Inputs) -> Drawn | None:
    """Draw how far each variant's dev scores spread over the last epochs, and its best.

    A run of fewer epochs would look steady for its length alone, so it has no spread.
    """
    runs = last_stages(inputs)
    if not runs:
        return None
    paper, panels = PaperScores(inputs), []
    for task, metric in dev_measures(inputs, runs):
        last: list[Interval | None] = [None] * len(runs)
        best: list[Interval | None] = [None] * len(runs)
        for row, (name, curves) in enumerate(runs.items()):
            if ("dev", task, metric) in curves:
                curve = curves["dev", task, metric]
                score = paper.get(name, metric if task == "overall" else task)
                learned = score.learned if score else None
                best[row] = Interval(curve.max().mean(), learned=learned)
                if len(end := curve.tail(LAST)) == LAST:
                    ends = end.min().mean(), end.max().mean()
                    last[row] = Interval(end.mean().mean(), *ends, learned=learned)
        panels.append((title_of(task), {f"last {LAST} epochs": last, "best epoch": best}))
    figure = draw_rows([inputs.variants[name] for name in runs], panels)
    return figure, [
        f"Bars: smallest to largest dev score of the last {LAST} epochs, if a run has so many; "
        f"points: their mean; hollow: the best epoch; mean over seeds.",
        f"Rows have only the tasks of a variant's last stage. {CROSSED}",
    ]
