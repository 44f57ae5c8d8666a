"""Each task's score over the epochs (the hybrid-bert paper, Figures 4 to 6)."""

from matplotlib.ticker import MaxNLocator

from minbert.figures import curves, style
from minbert.figures.curves import Of
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec
from minbert.figures.scored import TITLES


class Spec(VariantsSpec):
    """A line per variant, a panel per task and one for the overall score; train is dotted."""

    def plot(self, inputs: Inputs) -> Drawn:
        found, absent = curves.histories_of(inputs, self.variants)
        if not found:
            return style.nothing(), absent
        every = [run for runs in found.values() for run in runs]
        measures = sorted(curves.dev_measures(inputs, every), key=lambda of: of[0] == "overall")
        entries = style.entries_of(self.variants[name] for name in found)
        trained = any(Of("train", *m) in run.rows for run in every for m in measures)
        if trained:
            entries.append(style.entry("on train", style.Look("0.4", style.DOTS, "")))
        figure, panels = style.panel_pairs(len(measures), entries)
        for measure, axes in zip(measures, panels, strict=True):
            for number, runs in enumerate(found.values()):
                look = style.look(number)
                dotted = style.Look(look.color, style.DOTS, "")
                for split, line in (("dev", look), ("train", dotted)):
                    curves.draw_curve(axes, curves.curve_of(runs, Of(split, *measure)), line)
            axes.set(xlabel="Epoch", ylabel=TITLES[measure[0]])
            curves.epoch_axis(axes, curves.longest(every))
            axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
        said = curves.lines_note(len(runs) for runs in found.values())
        more = "; dotted: on the training batches, during training" if trained else ""
        return figure, [f"Dev scores after each epoch{more}.", said, *absent]
