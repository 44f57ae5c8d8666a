"""Scores against parameters: the models that no smaller model equals."""

from collections.abc import Mapping
from itertools import chain, product
from typing import Any

from matplotlib.ticker import MaxNLocator

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs
from minbert.figures.scored import crossed_note, paper_scores, seeds_note, title_of
from minbert.spec.figures import OfSplit

_OTHER = {"color": "0.6", "marker": "o"}


def score_parameters(options: OfSplit, inputs: Inputs) -> Drawn:
    """Draw all variants of one paper: overall score and each task on a split, against parameters.

    Variants on the front of any panel have a look of their own, the others are grey.
    """
    labels, split, paper = inputs.variants, options.split, paper_scores(inputs, options.split)
    counts = {row["variant"]: row["parameters"] for row in inputs.about["rows"]}
    sizes = {name: count / 1e6 for name, count in counts.items() if count}
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
    figure, panels = style.panels(len(by_measure), 1.75, 2)
    for (measure, of_variants), best, axes in zip(by_measure.items(), fronts, panels, strict=True):
        for number, name in enumerate(named):
            shown = [(sizes[name], of_variants[name])] if name in of_variants else []
            style.points(axes, shown, style.look(number), labels[name], markersize=4)
        others = [(sizes[n], one) for n, one in of_variants.items() if n not in named]
        about: dict[str, Any] = {"markersize": 2.5, "elinewidth": 0.4, "zorder": 2}
        style.points(axes, others, _OTHER, "other variants", **about)
        ys = [of_variants[name].mean for name in best]
        xs = [sizes[name] for name in best]
        axes.step(xs, ys, where="post", color="0.4", linewidth=0.9, label="front")
        axes.margins(0.08)
        axes.set_ylim(style.ends(list(of_variants.values())))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=5))
        axes.set(xlabel="Parameters (millions)", ylabel=title_of(measure))
    every = list(chain(*(of.values() for of in by_measure.values())))
    return figure, [
        f"Scores on {split}; overall: {paper.overall}. "
        "Front: no other variant with as many or fewer parameters has a mean as high.",
        crossed_note(every),
        seeds_note(every),
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
