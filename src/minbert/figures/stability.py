"""How much the dev scores still change at the end: their spread over the last epochs."""

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.histories import Of, curve_of, dev_measures, last_stages
from minbert.figures.inputs import Drawn, Inputs, Values, listed, mean_of
from minbert.figures.rows import marks, rows_legend, rows_of_panels, widen
from minbert.figures.scored import crossed_note, measure_of, paper_scores, two_lines
from minbert.spec.figures import Stability


def plot(options: Stability, inputs: Inputs) -> Drawn:
    """Draw how far each variant's dev scores spread over the last epochs, and its best.

    A run of fewer epochs would look steady for its length alone, so it has no spread.
    """
    found, absent = last_stages(inputs)
    if not found:
        return style.nothing(), absent
    measures = dev_measures(inputs, found)
    labels, titles = [inputs.variants[n] for n in found], [two_lines(task) for task, _ in measures]
    figure, panels = rows_of_panels(labels, titles)
    short: dict[str, int] = {}
    paper = paper_scores(inputs)
    drawn: list[Interval | None] = []
    for axes, measure in zip(panels, measures, strict=True):
        spread: list[Interval | None] = [None] * len(found)
        best: list[Interval | None] = [None] * len(found)
        for row, (name, runs) in enumerate(found.items()):
            if (curve := curve_of(runs, Of("dev", *measure))) is None:
                continue
            score = paper.get(name, measure_of(*measure))
            learned = score.learned if score else None
            values = curve.values
            best[row] = Interval(float(values.max(axis=1).mean()), learned=learned)
            if len(curve.epochs) < options.last:
                short[inputs.variants[name]] = len(curve.epochs)
            else:
                spread[row] = _spread(values[:, -options.last :])._replace(learned=learned)
        marks(axes, spread, label=f"last {options.last} epochs")
        marks(axes, best, style.look(4), filled=False, label="best epoch", lower=0.2)
        drawn += best
    widen(panels)
    rows_legend(figure, panels)
    fewer = listed([f"{label} ({count})" for label, count in short.items()])
    return figure, [
        f"Bars: smallest to largest dev score of the last {options.last} epochs; points: their "
        f"mean; hollow: the best epoch of each score; {mean_of(map(len, found.values()))}.",
        "Rows have only the tasks of a variant's last stage." * (None in drawn),
        f"Too few epochs for a spread: {fewer}." * bool(short),
        crossed_note(drawn),
        *absent,
    ]


def _spread(values: Values) -> Interval:
    """Return the mean of scores [seeds, epochs], and of each seed's smallest and largest."""
    low, high = float(values.min(axis=1).mean()), float(values.max(axis=1).mean())
    mean = min(max(float(values.mean()), low), high)  # of equal scores it may be off by a rounding
    return Interval(mean, low, high)
