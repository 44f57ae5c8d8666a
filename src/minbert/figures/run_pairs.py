"""Runs that a paper compares, side by side (minbert-downstream, Figures 2 to 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from minbert.common.errors import UserError, nearest
from minbert.figures import style
from minbert.figures.grids import panel_grid
from minbert.figures.inputs import Inputs
from minbert.figures.run_curves import Spec as CurvesSpec
from minbert.figures.run_curves import (
    draw_loss,
    draw_score,
    entries,
    explained,
    read_runs,
    score_name,
    share_height,
)
from minbert.figures.spec import render


class Spec(CurvesSpec):
    """`pairs` are two variants each, a row a pair."""

    pairs: tuple[tuple[str, str], ...] = Field(min_length=1)


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw loss and score of both runs of each pair of `spec` (see `Spec`), on one scale."""
    render("run-pairs", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    for name in (name for pair in spec.pairs for name in pair):
        if name not in spec.variants:
            raise UserError(
                f"figure '{spec.title}', key 'pairs': variant '{name}' is not among the figure's "
                f"variants.{nearest(name, spec.variants)}"
            )
    found, notes = read_runs(spec, inputs)
    if not found:
        return style.nothing(spec.title), notes
    runs = list(found.values())
    figure, grid = panel_grid(len(spec.pairs), 4, 1.25, entries(spec, runs))
    for row, pair in zip(grid, spec.pairs, strict=True):
        for number, name in enumerate(pair):
            loss, score = row[number], row[number + 2]
            label = style.shorten(spec.variants[name], 18)
            if name not in found:
                for axes in (loss, score):
                    axes.set_axis_off()
                    about: dict[str, Any] = {"ha": "center", "color": "0.4", "fontsize": 7}
                    axes.text(0.5, 0.5, f"{label}: no run", transform=axes.transAxes, **about)
                continue
            draw_loss(loss, found[name])
            draw_score(score, found[name], spec.chance)
            loss.set_title(f"{label}: loss", fontsize=7)
            score.set_title(f"{label}: {score_name(found[name])}", fontsize=7)
        for panels in (row[:2], row[2:]):
            if any(axes.has_data() for axes in panels):
                share_height(panels)
    for axes in grid[-1]:
        axes.set_xlabel("Epoch", fontsize=6)
    figure.suptitle(spec.title)
    return figure, [*explained(spec, runs), *notes]
