"""Each task's score over the epochs (the hybrid-bert paper, Figures 4 to 6)."""

from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from minbert.figures import curves, style
from minbert.figures.curves import Of
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec
from minbert.figures.scored import (
    FLOOR,
    floors_of,
    measure_of,
    paper_floors,
    several_floors,
    title_of,
    unlearned_note,
)

_THIN: dict[str, Any] = {"linewidth": 0.6}


class Spec(VariantsSpec):
    """A line per variant, a panel per task and one for the overall score; train is thin."""

    def plot(self, inputs: Inputs) -> Drawn:
        found, absent = curves.histories_of(inputs, self.variants)
        if not found:
            return style.nothing(), absent
        every = [run for runs in found.values() for run in runs]
        measures = sorted(curves.dev_measures(inputs, every), key=lambda of: of[0] == "overall")
        entries = style.entries_of(self.variants[name] for name in found)
        trained = any(Of("train", *m) in run.rows for run in every for m in measures)
        if trained:
            entries.append(style.entry("on train", style.Look("0.4", "-", ""), **_THIN))
        floors, flat = paper_floors(inputs)
        if floors:
            entries.append(Line2D([], [], label="floor", **style.FLOOR))
        lowest: list[list[float]] = []
        figure, panels = style.panel_pairs(len(measures), entries)
        for measure, axes in zip(measures, panels, strict=True):
            for number, runs in enumerate(found.values()):
                look = style.look(number)
                plain = style.Look(look.color, "-", "")
                for split, line, about in (
                    ("dev", look, {}),
                    ("train", plain, {**_THIN, "band": False}),
                ):
                    curve = curves.curve_of(runs, Of(split, *measure))
                    curves.draw_curve(axes, curve, line, **about)
            lowest.append(floors_of(floors, found, measure_of(*measure)))
            for at in lowest[-1]:
                axes.axhline(at, **style.FLOOR, zorder=1)
            axes.set(xlabel="Epoch", ylabel=title_of(measure[0]))
            curves.epoch_axis(axes, curves.longest(every), first=1)
            axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
        said = curves.lines_note(len(runs) for runs in found.values())
        more = "; thin, without bands: on the training batches, during training" * trained
        notes = [f"Dev scores after each epoch{more}. {FLOOR}", *several_floors(lowest), said]
        below = sorted(of for of in flat if of.variant in found)
        return figure, [*notes, *unlearned_note(below, self.variants), *absent]
