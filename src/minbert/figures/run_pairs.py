"""Runs that a paper compares, side by side (minbert-downstream, Figures 2 to 6)."""

from pydantic import Field

from minbert.figures import run_curves, style
from minbert.figures.inputs import Drawn, Inputs
from minbert.figures.run_curves import Spec as CurvesSpec
from minbert.figures.run_curves import score_name
from minbert.figures.scored import paper_floors, unlearned_note


class Spec(CurvesSpec):
    """`pairs` are two variants each, in a row per pair and on one scale."""

    pairs: tuple[tuple[str, str], ...] = Field(min_length=1)

    def plot(self, inputs: Inputs) -> Drawn:
        self.check_variants((name for pair in self.pairs for name in pair), "key 'pairs'")
        found, notes = self.read_runs(inputs)
        if not found:
            return style.nothing(), notes
        runs = list(found.values())
        floors, flat = paper_floors(inputs)
        figure, grid = style.panel_grid(len(self.pairs), 4, 1.35, run_curves.entries(floors))
        for row, pair in zip(grid, self.pairs, strict=True):
            for name, loss, score in zip(pair, row[:2], row[2:], strict=True):
                label = style.shorten(self.variants[name], 30)
                if name in found:
                    floor = run_curves.floor_of(floors, name, found[name])
                    run_curves.draw_run(loss, score, found[name], floor)
                    loss.set_title(f"{label}\nloss", fontsize=7)
                    score.set_title(f"{label}\n{score_name(found[name].task)}", fontsize=7)
                    continue
                for axes in (loss, score):
                    axes.set_axis_off()
                    style.say(axes, f"{label}\nno run", fontsize=7)
            style.share_height(row[:2])
            style.share_height(row[2:])
        for axes in grid[-1]:
            axes.set_xlabel("Epoch", fontsize=6)
        below = unlearned_note(run_curves.shown(flat, found), self.variants)
        return figure, [*run_curves.explained(runs, inputs), *below, *notes]
