"""How much the dev scores still change at the end: their spread over the last epochs."""

from collections.abc import Sequence
from typing import Any

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.histories import History, Of, curve_of, dev_measures, last_stages
from minbert.figures.inputs import Drawn, Inputs, listed, mean_of
from minbert.figures.rows import marks, rows_legend, rows_of_panels, widen
from minbert.figures.scored import CROSSED, measure_of, paper_scores, two_lines
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
    flat = paper_scores(inputs).flat
    any_crossed = any_absent = False
    for axes, measure in zip(panels, measures, strict=True):
        spread: list[Interval | None] = [None] * len(found)
        best: list[Interval | None] = [None] * len(found)
        for row, (name, runs) in enumerate(found.items()):
            made = _spread(runs, Of("dev", *measure), options.last)
            if made is not None:
                spread[row], best[row], epochs = made
                if epochs < options.last:
                    short[inputs.variants[name]] = epochs
        said = measure_of(*measure)
        crossed = [row for row, name in enumerate(found) if (name, "dev", said) in flat]
        any_crossed |= bool(crossed)
        any_absent |= None in best
        marks(axes, spread, label=f"last {options.last} epochs", crossed=crossed)
        about: dict[str, Any] = {"filled": False, "label": "best epoch", "lower": 0.2}
        marks(axes, best, style.look(4), crossed=crossed, **about)
    widen(panels)
    rows_legend(figure, panels)
    fewer = listed([f"{label} ({count})" for label, count in short.items()])
    return figure, [
        f"Bars: smallest to largest dev score of the last {options.last} epochs; points: their "
        f"mean; hollow: the best epoch of each score; {mean_of(map(len, found.values()))}.",
        "Rows have only the tasks of a variant's last stage." * any_absent,
        f"Too few epochs for a spread: {fewer}." * bool(short),
        CROSSED * any_crossed,
        *absent,
    ]


def _spread(
    runs: Sequence[History], of: Of, last: int
) -> tuple[Interval | None, Interval, int] | None:
    """Return the scores' spread over the last epochs, their best, and how many epochs there are.

    The spread is None if they are fewer than `last`; None if the runs have no such score.
    """
    curve = curve_of(runs, of)
    if curve is None:
        return None
    seeds, epochs = curve.values.shape
    best = Interval(float(curve.values.max(axis=1).mean()), None, None, seeds)
    if epochs < last:
        return None, best, epochs
    end = curve.values[:, -last:]
    low, high = float(end.min(axis=1).mean()), float(end.max(axis=1).mean())
    mean = min(max(float(end.mean()), low), high)  # of equal scores it may be off by a rounding
    return Interval(mean, low, high, seeds), best, epochs
