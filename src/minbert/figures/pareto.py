"""Scores against parameters: the models that no smaller model equals."""

from collections.abc import Mapping
from itertools import product
from typing import Literal

from matplotlib.ticker import MaxNLocator

from minbert.evaluate.means import over_seeds
from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, FigureSpec, Inputs
from minbert.figures.scored import (
    CROSS,
    CROSSED,
    CUT,
    bars,
    ends,
    overall_note,
    paper_scores,
    seeds_note,
    title_of,
    unlearned,
)

_OTHER = style.Look("0.6", "none", "o")
_SMALL = {"markersize": 2.5, "elinewidth": 0.4, "zorder": 2}


class Spec(FigureSpec):
    """All variants of one paper: overall score and each task on `split`, against parameters.

    Variants on the front of any panel have a look of their own, the others are grey.
    """

    split: Literal["dev", "test"] = "dev"

    def plot(self, inputs: Inputs) -> Drawn:
        paper = paper_scores(inputs, self.variants, self.split)
        notes = list(paper.absent)
        shown = {name: seeds for name, seeds in paper.shown.items() if seeds}
        sizes = {n: c["here"] for n, c in inputs.facts["parameters"].items() if c["here"]}
        uncounted = [self.variants[name] for name in shown if name not in sizes]
        if uncounted:
            notes.append(f"Left out (parameters not counted): {', '.join(uncounted)}.")
        found = over_seeds(paper.scores, paper.overall_tasks)
        names = [name for name in self.variants if name in sizes]
        by_measure: dict[str, dict[str, Interval]] = {}
        for measure, name in product(paper.measures, names):
            if (of := Of(name, self.split, measure)) in found:
                by_measure.setdefault(measure, {})[name] = found[of]
        if not by_measure:
            return style.nothing(), notes
        fronts = {
            measure: front(sizes, {name: score.mean for name, score in of.items()})
            for measure, of in by_measure.items()
        }
        named = [name for name in self.variants if any(name in of for of in fronts.values())]
        looks = {name: style.look(number) for number, name in enumerate(named)}
        entries = [style.entry(self.variants[n], of, linestyle="none") for n, of in looks.items()]
        if len(named) < len(set().union(*by_measure.values())):
            entries.append(style.entry("other variants", _OTHER))
        flat = unlearned(paper.scores, paper.overall_tasks)
        if flat:
            entries.append(style.entry(CROSS, style.cross(_OTHER)))
        entries.append(style.entry("front", style.Look("0.4", "-", "")))
        figure, panels = style.panel_pairs(len(by_measure), entries)
        for (measure, of_variants), axes in zip(by_measure.items(), panels, strict=True):
            for name, one in of_variants.items():
                about = {"markersize": 4, "elinewidth": 0.8} if name in looks else _SMALL
                look = looks.get(name, _OTHER)
                if Of(name, self.split, measure) in flat:
                    look = style.cross(look)
                style.points(axes, [sizes[name] / 1e6], [one.mean], look, yerr=bars([one]), **about)
            best = [(sizes[name] / 1e6, of_variants[name].mean) for name in fronts[measure]]
            xs, ys = zip(*best, strict=True)
            axes.step(xs, ys, where="post", color="0.4", linewidth=0.9, marker="", zorder=1)
            axes.margins(0.08)
            axes.set_ylim(*ends(list(of_variants.values())))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(nbins=5))
            axes.set(xlabel="Parameters (millions)", ylabel=title_of(measure))
        return figure, [
            f"Scores on {self.split}; overall: {overall_note(paper.rule, paper.overall_tasks)}. "
            "Front: no other variant with as many or fewer parameters has a mean as high.",
            *([CROSSED] if flat else []),
            " ".join([*seeds_note(one for of in by_measure.values() for one in of.values()), CUT]),
            *notes,
        ]


def front(sizes: Mapping[str, int], means: Mapping[str, float]) -> list[str]:
    """Return the variants that score more than all with at most as many parameters, smallest first.

    Of equals, the first.
    """
    kept: list[str] = []
    for name in sorted(means, key=lambda name: (sizes[name], -means[name])):
        if not kept or means[name] > means[kept[-1]]:
            kept.append(name)
    return kept
