"""Scores as one setting varies: a line for each method."""

from typing import Any

from matplotlib.ticker import NullLocator

from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs
from minbert.figures.scored import (
    CROSS,
    FLOOR,
    bars,
    crossed_note,
    ends,
    paper_scores,
    seeds_note,
    several_floors,
    title_of,
)
from minbert.spec.figures import Sweep

_ASIDE = 0.012  # of the axis: how far the points of two lines at one value stand apart
_HOLLOW: dict[str, Any] = {"s": 7, "linewidth": 0.7, "facecolor": "white", "zorder": 4}
_WIDE = 20  # values this many times apart need a log axis


def plot(options: Sweep, inputs: Inputs) -> Drawn:
    """Draw overall score and each task on a split, against a setting."""
    paper = paper_scores(inputs, options.split)
    shown = {name for of in options.lines.values() for name in of}
    found = {of: one for of, one in paper.means.items() if of.variant in shown}
    if not found:
        return style.nothing(), paper.absent
    measures = [m for m in paper.measures if any(of.measure == m for of in found)]
    looks = {label: style.look(number) for number, label in enumerate(options.lines)}
    entries = [style.entry(label, look) for label, look in looks.items()]
    if any(one.learned is False for one in found.values()):
        entries.append(style.entry(CROSS, style.cross(style.Look("0.4", "none", "o"))))
    lowest = {measure: paper.floors(shown, measure) for measure in measures}
    entries += style.floor_entry(any(lowest.values()))
    figure, panels = style.panels(len(measures), 1.75, 2, entries)
    ticks = sorted({x for of in options.lines.values() for x in of.values()})
    first, last = ticks[0], ticks[-1]
    log = first > 0 and last / first > _WIDE

    def beside(x: float, shift: float) -> float:
        return x * (last / first) ** shift if log else x + shift * ((last - first) or 1.0)

    single = {of: [one.value for one in paper.scores[of].values()] for of in found}
    for measure, axes in zip(measures, panels, strict=True):
        for number, (label, values) in enumerate(options.lines.items()):
            shift = _ASIDE * (number - (len(options.lines) - 1) / 2)
            at = {
                of: beside(x, shift)
                for name, x in sorted(values.items(), key=lambda item: item[1])
                if (of := Of(name, options.split, measure)) in found
            }
            look, means = looks[label], [found[of].mean for of in at]
            axes.plot(list(at.values()), means, **look._replace(marker="")._asdict())
            for of, x in at.items():
                point = style.cross(look) if found[of].learned is False else look
                style.points(axes, [x], [found[of].mean], point, yerr=bars([found[of]]))
                if len(single[of]) > 1:
                    aside = [beside(values[of.variant], shift - _ASIDE / 2)] * len(single[of])
                    axes.scatter(aside, single[of], marker=look.marker, color=look.color, **_HOLLOW)
        axes.set(xlabel=options.x, ylabel=title_of(measure))
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        for floor in lowest[measure]:
            axes.axhline(floor, **style.FLOOR)
        of_panel = [of for of in found if of.measure == measure]
        reached = [*lowest[measure], *(value for of in of_panel for value in single[of])]
        axes.set_ylim(*ends([*(found[of] for of in of_panel), *map(Interval, reached)]))
    known = FLOOR + " \u00d7: not above it at the 5 % level." * bool(crossed_note(found.values()))
    hollow = " Small and hollow: each seed." * any(len(of) > 1 for of in single.values())
    return figure, [
        f"Scores on {options.split}; overall: {paper.overall}."
        + " Points at the same value are drawn side by side." * (len(options.lines) > 1),
        known * any(lowest.values()),
        several_floors(lowest.values()),
        seeds_note(found.values(), hollow),
        *paper.absent,
    ]
