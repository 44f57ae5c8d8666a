"""Scores as one setting varies: a line for each method."""

from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs
from minbert.figures.scored import FLOOR, PaperScores, points_note, title_of
from minbert.spec.figures import Sweep

_ASIDE = 0.08  # of two values' distance: how far the points of two lines at one value stand apart


def sweep(options: Sweep, inputs: Inputs) -> Drawn | None:
    """Draw overall score and each task on a split, against a setting's values side by side."""
    paper = PaperScores(inputs, options.split)
    found = {m: [one for n in options.named() if (one := paper.get(n, m))] for m in paper.measures}
    measures = [measure for measure in found if found[measure]]
    if not measures:
        return None
    figure, panels = style.panels(len(measures), 1.75, 2)
    ticks = sorted({x for of in options.lines.values() for x in of.values()})
    for axes, measure in zip(panels, measures, strict=True):
        for number, (label, values) in enumerate(options.lines.items()):
            aside = _ASIDE * (number - (len(options.lines) - 1) / 2)
            shown = [
                (ticks.index(values[name]) + aside, one)
                for name in sorted(values, key=values.__getitem__)
                if (one := paper.get(name, measure))
            ]
            look = style.look(number)
            means = [one.mean for _, one in shown]
            axes.plot([at for at, _ in shown], means, **look | {"marker": ""})
            style.points(axes, shown, look, label)
        floors = paper.floors(options.named(), measure)
        for floor in floors:
            axes.axhline(floor, **style.FLOOR)
        axes.set(xlabel=options.x, ylabel=title_of(measure))
        axes.set_xticks(range(len(ticks)), [f"{x:g}" for x in ticks])
        axes.set_ylim(style.ends(found[measure], floors))
    return figure, [
        f"Scores on {options.split}; overall: {paper.overall}. {FLOOR}",
        points_note([one for of in found.values() for one in of]),
    ]
