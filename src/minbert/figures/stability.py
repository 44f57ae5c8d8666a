"""How much the dev scores still change at the end: their spread over the last epochs."""

from pydantic import Field

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.curves import Of, curve_of, dev_measures, histories_of
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec, listed, mean_of
from minbert.figures.scored import TITLES, marks, rows_legend, rows_of_panels


class Spec(VariantsSpec):
    """A row per variant: how far its dev scores spread over the `last` epochs, and its best."""

    last: int = Field(default=5, ge=2)

    def plot(self, inputs: Inputs) -> Drawn:
        found, absent = histories_of(inputs, self.variants)
        if not found:
            return style.nothing(), absent
        measures = dev_measures(inputs, [run for runs in found.values() for run in runs])
        figure, panels = rows_of_panels([self.variants[name] for name in found], len(measures))
        short: dict[str, int] = {}
        for axes, measure in zip(panels, measures, strict=True):
            spread: list[Interval | None] = [None] * len(found)
            best: list[Interval | None] = [None] * len(found)
            for row, (name, runs) in enumerate(found.items()):
                curve = curve_of(runs, Of("dev", *measure))
                if curve is not None:
                    end = curve.values[:, -self.last :]
                    if end.shape[1] < self.last:
                        short[self.variants[name]] = end.shape[1]
                    low, high = float(end.min(axis=1).mean()), float(end.max(axis=1).mean())
                    # Of equal scores the mean may be off by a rounding.
                    mean = min(max(float(end.mean()), low), high)
                    spread[row] = Interval(mean, low, high, len(end))
                    top = float(curve.values.max(axis=1).mean())
                    best[row] = Interval(top, None, None, len(end))
            marks(axes, spread, style.look(0), label="last epochs")
            marks(axes, best, style.look(4), filled=False, label="best epoch")
            axes.set_xlabel(TITLES[measure[0]].replace(" ", "\n", 1))
        rows_legend(panels)
        notes = [
            f"Bars: smallest to largest dev score of the last {self.last} epochs; points: their "
            f"mean; hollow: the best epoch of each score; {mean_of(map(len, found.values()))}."
        ]
        if short:
            fewer = listed([f"{label} ({count})" for label, count in short.items()])
            notes.append(f"Runs with fewer epochs: {fewer}.")
        return figure, [*notes, *absent]
