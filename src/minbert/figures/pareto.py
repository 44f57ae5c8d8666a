"""Scores against parameters: which models no smaller or better one makes useless."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.grids import entry, panel_grid
from minbert.figures.inputs import Inputs, absent_notes
from minbert.figures.scored import TITLES, Of, over_seeds, read_scores, seeds_note, seeds_shown
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS

_OTHER = style.Look("0.6", "none", "o")


class Spec(FigureSpec):
    """All variants of one paper by their scores on `split`."""

    split: Literal["dev", "test"] = "dev"


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the scores of `spec` (see `Spec`) against the counted parameters.

    A panel for the overall score and for each task. A variant is on the front if no other with at
    most as many parameters scores as high (by the mean of the seeds); those on any front have a
    look of their own, the others are grey.
    """
    render("score-parameters", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    ((paper, path),) = inputs.scores.items()
    scores = {of: v for of, v in read_scores(path, paper).items() if of.split == spec.split}
    rule = inputs.facts["rules"][paper]
    sizes = {n: c["here"] for n, c in inputs.facts["parameters"].items() if c["here"]}
    shown = {name: seeds_shown(scores, name, spec.split) for name in spec.variants}
    seeds = set().union(*shown.values())
    notes = absent_notes(spec.variants, shown, dict.fromkeys(spec.variants, seeds), inputs.failed)
    uncounted = [spec.variants[name] for name in shown if shown[name] and name not in sizes]
    if uncounted:
        notes.append(f"Left out, parameters not counted: {', '.join(uncounted)}.")
    found = {of: i for of, i in over_seeds(scores).items() if of.variant in sizes}
    measures = [m for m in (rule, *TASKS) if any(of.measure == m for of in found)]
    if not measures:
        return style.nothing(spec.title), notes
    by_measure = {
        m: {n: found[of] for n in spec.variants if (of := Of(n, spec.split, m)) in found}
        for m in measures
    }
    fronts = {m: front(sizes, {n: i.mean for n, i in by_measure[m].items()}) for m in measures}
    named = [name for name in spec.variants if any(name in of for of in fronts.values())]
    looks = {name: style.look(number) for number, name in enumerate(named)}
    entries = [entry(spec.variants[n], look, linestyle="none") for n, look in looks.items()]
    if len(named) < len({of.variant for of in found}):
        entries.append(entry("other variants", _OTHER))
    entries.append(entry("front", style.Look("0.4", "-", "")))
    columns = min(2, len(measures))
    figure, grid = panel_grid(-(-len(measures) // columns), columns, 1.75, entries)
    panels = [axes for row in grid for axes in row]
    for axes, measure in zip(panels, measures, strict=False):
        _panel(axes, by_measure[measure], sizes, fronts[measure], looks)
        axes.set(xlabel="Parameters (millions)", ylabel=TITLES.get(measure, TITLES["overall"]))
    for axes in panels[len(measures) :]:
        axes.set_axis_off()
    figure.suptitle(spec.title)
    said = (
        f"Scores on {spec.split}; overall: {rule} mean of SST, paraphrase and STS. Front: no other "
        "variant with at most as many parameters has a mean as high."
    )
    return figure, [said, *seeds_note(len(shown[name]) for name in shown if shown[name]), *notes]


def front(sizes: Mapping[str, int], means: Mapping[str, float]) -> list[str]:
    """Return the variants that no other one beats, from the smallest up.

    Of those with as many parameters the best is taken; of equals, the first.
    """
    best = float("-inf")
    kept = []
    for name in sorted(means, key=lambda name: (sizes[name], -means[name])):
        if means[name] > best:
            kept.append(name)
            best = means[name]
    return kept


def _panel(
    axes: Axes,
    found: Mapping[str, Interval],
    sizes: Mapping[str, int],
    best: list[str],
    looks: Mapping[str, style.Look],
) -> None:
    for name, one in found.items():
        look = looks.get(name, _OTHER)
        below = one.mean - (one.mean if one.low is None else one.low)
        axes.errorbar(
            [sizes[name] / 1e6],
            [one.mean],
            yerr=[[below], [below]],
            color=look.color,
            marker=look.marker,
            markersize=4 if name in looks else 2.5,
            elinewidth=0.8 if name in looks else 0.4,
            linestyle="none",
            zorder=3 if name in looks else 2,
        )
    xs = [sizes[name] / 1e6 for name in best]
    ys = [found[name].mean for name in best]
    axes.step(xs, ys, where="post", color="0.4", linewidth=0.9, marker="", zorder=1)
    axes.margins(0.08)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=5))
