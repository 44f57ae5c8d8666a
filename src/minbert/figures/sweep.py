"""Scores as one setting varies: a line for each method."""

from typing import Any

from matplotlib.ticker import NullLocator

from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs
from minbert.figures.scored import FLOOR, PaperScores, points_note, title_of
from minbert.spec.figures import Sweep

_ASIDE = 0.012  # of the axis: how far the points of two lines at one value stand apart
_HOLLOW: dict[str, Any] = {"s": 7, "linewidth": 0.7, "facecolor": "white", "zorder": 4}
_WIDE = 20  # values this many times apart need a log axis


def sweep(options: Sweep, inputs: Inputs) -> Drawn:
    """Draw overall score and each task on a split, against a setting."""
    paper = PaperScores(inputs, options.split)
    named = {name for of in options.lines.values() for name in of}
    found = {of: one for of, one in paper.means.items() if of.variant in named}
    if not found:
        return style.nothing(), inputs.absent
    measures = [m for m in paper.measures if any(of.measure == m for of in found)]
    figure, panels = style.panels(len(measures), 1.75, 2)
    ticks = sorted({x for of in options.lines.values() for x in of.values()})
    first, last = ticks[0], ticks[-1]
    log = first > 0 and last / first > _WIDE

    def beside(x: float, shift: float) -> float:
        return x * (last / first) ** shift if log else x + shift * ((last - first) or 1.0)

    for measure, axes in zip(measures, panels, strict=True):
        singles: list[float] = []
        for number, (label, values) in enumerate(options.lines.items()):
            shift = _ASIDE * (number - (len(options.lines) - 1) / 2)
            at = [(x, Of(name, options.split, measure)) for name, x in values.items()]
            at = sorted((x, of) for x, of in at if of in found)
            shown = [(beside(x, shift), found[of]) for x, of in at]
            look = style.look(number)
            means = [one.mean for _, one in shown]
            axes.plot(
                [x for x, _ in shown], means, color=look["color"], linestyle=look["linestyle"]
            )
            style.points(axes, shown, look, label)
            for x, of in at:
                seeds = [one.value for one in paper.scores[of].values()]
                singles += seeds
                if len(seeds) > 1:
                    aside = [beside(x, shift - _ASIDE / 2)] * len(seeds)
                    axes.scatter(
                        aside, seeds, marker=look["marker"], color=look["color"], **_HOLLOW
                    )
        axes.set(xlabel=options.x, ylabel=title_of(measure))
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        floors = paper.floors(named, measure)
        for floor in floors:
            axes.axhline(floor, **style.FLOOR)
        of_panel: list[Interval] = [one for of, one in found.items() if of.measure == measure]
        axes.set_ylim(style.ends(of_panel, [*singles, *floors]))
    several = any(one.n > 1 for one in found.values())
    return figure, [
        f"Scores on {options.split}; overall: {paper.overall}."
        + " Points at the same value are drawn side by side." * (len(options.lines) > 1),
        FLOOR,
        points_note([*found.values()]) + " Small and hollow: each seed." * several,
        *inputs.absent,
    ]
