"""Scores against parameters: the models that no smaller model equals."""

from collections.abc import Mapping
from itertools import chain, product

from matplotlib.ticker import MaxNLocator

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs
from minbert.figures.scored import (
    CROSS,
    bars,
    crossed_note,
    ends,
    paper_scores,
    seeds_note,
    title_of,
)
from minbert.spec.figures import ScoreParameters

_OTHER = style.Look("0.6", "none", "o")


def plot(options: ScoreParameters, inputs: Inputs) -> Drawn:
    """Draw all variants of one paper: overall score and each task on a split, against parameters.

    Variants on the front of any panel have a look of their own, the others are grey.
    """
    labels, split, paper = inputs.variants, options.split, paper_scores(inputs, options.split)
    sizes = {n: of["here"] / 1e6 for n, of in inputs.facts["parameters"].items() if of["here"]}
    uncounted = [labels[name] for name, of in paper.shown.items() if of and name not in sizes]
    notes = [f"Left out (parameters not counted): {', '.join(uncounted)}."] if uncounted else []
    by_measure: dict[str, dict[str, Interval]] = {}
    for measure, name in product(paper.measures, labels):
        if name in sizes and (one := paper.get(name, measure)):
            by_measure.setdefault(measure, {})[name] = one
    if not by_measure:
        return style.nothing(), [*paper.absent, *notes]
    fronts = [
        front(sizes, {name: one.mean for name, one in of.items()}) for of in by_measure.values()
    ]
    named = [name for name in labels if any(name in of for of in fronts)]
    looks = {name: style.look(number) for number, name in enumerate(named)}
    entries = [style.entry(labels[n], of, linestyle="none") for n, of in looks.items()]
    if len(named) < len(set().union(*by_measure.values())):
        entries.append(style.entry("other variants", _OTHER))
    if crossed := crossed_note(chain(*(of.values() for of in by_measure.values()))):
        entries.append(style.entry(CROSS, style.cross(_OTHER)))
    entries.append(style.entry("front", style.Look("0.4")))
    figure, panels = style.panels(len(by_measure), 1.75, 2, entries)
    for (measure, of_variants), best, axes in zip(by_measure.items(), fronts, panels, strict=True):
        for name, one in of_variants.items():
            about = {"markersize": 4, "elinewidth": 0.8} if name in looks else {}
            look = looks.get(name, _OTHER)
            if one.learned is False:
                look = style.cross(look)
            about = about or {"markersize": 2.5, "elinewidth": 0.4, "zorder": 2}
            style.points(axes, [sizes[name]], [one.mean], look, yerr=bars([one]), **about)
        ys = [of_variants[name].mean for name in best]
        axes.step([sizes[name] for name in best], ys, where="post", color="0.4", linewidth=0.9)
        axes.margins(0.08)
        axes.set_ylim(*ends(list(of_variants.values())))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=5))
        axes.set(xlabel="Parameters (millions)", ylabel=title_of(measure))
    return figure, [
        f"Scores on {split}; overall: {paper.overall}. "
        "Front: no other variant with as many or fewer parameters has a mean as high.",
        crossed,
        seeds_note(chain(*(of.values() for of in by_measure.values()))),
        *paper.absent,
        *notes,
    ]


def front(sizes: Mapping[str, float], means: Mapping[str, float]) -> list[str]:
    """Return the variants that score more than all with at most as many parameters, smallest first.

    Of equals, the first.
    """
    kept: list[str] = []
    for name in sorted(means, key=lambda name: (sizes[name], -means[name])):
        if not kept or means[name] > means[kept[-1]]:
            kept.append(name)
    return kept
