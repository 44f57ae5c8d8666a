"""Scores as one setting varies: a line for each method."""

from itertools import product
from typing import Annotated, Any, Literal

from matplotlib.ticker import NullLocator
from pydantic import Field

from minbert.evaluate.means import over_seeds
from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec
from minbert.figures.scored import (
    CROSS,
    CUT,
    FLOOR,
    bars,
    ends,
    floors,
    floors_of,
    overall_note,
    paper_scores,
    seeds_note,
    several_floors,
    title_of,
    unlearned,
)

_ASIDE = 0.012  # of the axis: how far the points of two lines at one value stand apart
_HOLLOW: dict[str, Any] = {"s": 7, "linewidth": 0.7, "facecolor": "white", "zorder": 4}
_WIDE = 20  # values this many times apart need a log axis


class Spec(VariantsSpec):
    """Overall score and each task on `split`, against a setting.

    `lines` has, by label, the setting's value of each variant of a line; a variant may stand in
    several lines. `x` is the title of that axis.
    """

    x: str
    lines: dict[str, Annotated[dict[str, float], Field(min_length=1)]] = Field(min_length=1)
    split: Literal["dev", "test"] = "dev"

    def plot(self, inputs: Inputs) -> Drawn:
        for label, values in self.lines.items():
            self.check_variants(values, f"options.lines.{label}")
        shown = {name: self.variants[name] for of in self.lines.values() for name in of}
        paper = paper_scores(inputs, shown, self.split)
        every = over_seeds(paper.scores, paper.overall_tasks)
        found = {of: one for of, one in every.items() if of.variant in shown}
        measures = [m for m in paper.measures if any(of.measure == m for of in found)]
        if not found:
            return style.nothing(), paper.absent
        flat = unlearned(paper.scores, paper.overall_tasks) & found.keys()
        looks = {label: style.look(number) for number, label in enumerate(self.lines)}
        entries = [style.entry(label, look) for label, look in looks.items()]
        if flat:
            entries.append(style.entry(CROSS, style.cross(style.Look("0.4", "none", "o"))))
        of_rows = floors(paper.scores)
        lowest = {measure: floors_of(of_rows, shown, measure) for measure in measures}
        if any(lowest.values()):
            entries.append(style.entry("floor", style.Look("0.35", style.DOTS, "")))
        figure, panels = style.panel_pairs(len(measures), entries)
        ticks = sorted({x for of in self.lines.values() for x in of.values()})
        first, last = ticks[0], ticks[-1]
        log = first > 0 and last / first > _WIDE

        def beside(x: float, shift: float) -> float:
            return x * (last / first) ** shift if log else x + shift * ((last - first) or 1.0)

        single = {of: [one.value for one in paper.scores[of].values()] for of in found}
        for (measure, axes), (number, label) in product(
            zip(measures, panels, strict=True), enumerate(self.lines)
        ):
            shift = _ASIDE * (number - (len(self.lines) - 1) / 2)
            at = {
                of: x
                for name, x in sorted(self.lines[label].items(), key=lambda item: item[1])
                if (of := Of(name, self.split, measure)) in found
            }
            look = looks[label]
            places = [beside(x, shift) for x in at.values()]
            means = [found[of].mean for of in at]
            axes.plot(places, means, **look._replace(marker="")._asdict())
            for of, x in zip(at, places, strict=True):
                point = style.cross(look) if of in flat else look
                style.points(axes, [x], [found[of].mean], point, yerr=bars([found[of]]))
                if len(single[of]) > 1:
                    aside = [beside(at[of], shift - _ASIDE / 2)] * len(single[of])
                    axes.scatter(aside, single[of], marker=look.marker, color=look.color, **_HOLLOW)
        for measure, axes in zip(measures, panels, strict=True):
            axes.set(xlabel=self.x, ylabel=title_of(measure))
            if log:
                axes.set_xscale("log")
                axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
            scores = [one for of, one in found.items() if of.measure == measure]
            points = [value for of in found if of.measure == measure for value in single[of]]
            for floor in lowest[measure]:
                axes.axhline(floor, **style.FLOOR)
                points.append(floor)
            scores += [Interval(value, None, None, 0) for value in points]
            axes.set_ylim(*ends(scores))
        hollow_note = ["Small and hollow: each seed."] * any(len(of) > 1 for of in single.values())
        crossed = ["\u00d7: not above it at the 5 % level."] if flat else []
        return figure, [
            f"Scores on {self.split}; overall: {overall_note(paper.rule, paper.overall_tasks)}."
            + (" Points at the same value are drawn side by side." if len(self.lines) > 1 else ""),
            *([" ".join([FLOOR, *crossed])] if any(lowest.values()) else []),
            *several_floors(lowest.values()),
            " ".join([*seeds_note(found.values()), *hollow_note, CUT]),
            *paper.absent,
        ]
