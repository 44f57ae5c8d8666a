"""Each task's score over the epochs (the hybrid-bert paper, Figures 4 to 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import Field

from minbert.figures import style
from minbert.figures.curves import (
    Of,
    curve_of,
    draw_curve,
    epoch_axis,
    lines_notes,
    longest,
    read_histories,
)
from minbert.figures.grids import entries_of, entry, panel_grid
from minbert.figures.inputs import Inputs, absent_notes, present
from minbert.figures.scored import TITLES
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS

_DOTS = (0, (1, 1.2))


class Spec(FigureSpec):
    """A line a variant, a panel a task and one for the overall score."""

    variants: dict[str, str] = Field(min_length=1)


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the dev scores after each epoch of the variants of `spec`, by task and overall.

    Where the histories have scores on train, these are dotted.
    """
    render("dev-curves", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    there = {name: present(inputs.histories.get(name, {})) for name in spec.variants}
    absent = absent_notes(spec.variants, there, inputs.histories, inputs.failed)
    found = {name: read_histories(files) for name, files in there.items() if files}
    if not found:
        return style.nothing(spec.title), absent
    every = [run for runs in found.values() for run in runs]
    measures = [(task, about.metric) for task, about in TASKS.items()]
    measures.append(("overall", inputs.facts["rules"][_paper(inputs)]))
    measures = [m for m in measures if any(Of("dev", *m) in run.rows for run in every)]
    entries = entries_of({name: spec.variants[name] for name in found})
    trained = any(Of("train", *m) in run.rows for run in every for m in measures)
    if trained:
        entries.append(entry("on train", style.Look("0.4", _DOTS, "")))
    columns = min(2, len(measures))
    rows = -(-len(measures) // columns)
    figure, grid = panel_grid(rows, columns, 1.75, entries)
    panels = [axes for row in grid for axes in row]
    for axes, measure in zip(panels, measures, strict=False):
        for number, runs in enumerate(found.values()):
            look = style.look(number)
            curve = curve_of(runs, Of("dev", *measure))
            if curve is not None:
                draw_curve(axes, curve, "", look)
            train = curve_of(runs, Of("train", *measure))
            if train is not None:
                draw_curve(axes, train, "", style.Look(look.color, _DOTS, ""))
        axes.set(xlabel="Epoch", ylabel=TITLES[measure[0]])
        epoch_axis(axes, longest(every))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    for axes in panels[len(measures) :]:
        axes.set_axis_off()
    figure.suptitle(spec.title)
    said = lines_notes(len(runs) for runs in found.values())
    dotted = "; dotted: on train, of the batches while they trained" if trained else ""
    return figure, [f"Dev scores after each epoch{dotted}.", said, *absent]


def _paper(inputs: Inputs) -> str:
    (paper,) = inputs.facts["rules"]
    return str(paper)
