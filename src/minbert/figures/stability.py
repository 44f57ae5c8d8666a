"""How much the dev scores still move at the end: their spread over the last epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.curves import Of, curve_of, read_histories
from minbert.figures.inputs import Inputs, absent_notes, listed, present
from minbert.figures.rows import marks, rows_of_panels
from minbert.figures.scored import TITLES
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS


class Spec(FigureSpec):
    """A row a variant; `last` is the number of epochs at the end that are looked at."""

    variants: dict[str, str] = Field(min_length=1)
    last: int = Field(default=5, ge=2)


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the spread of the dev scores over the last epochs of the variants of `spec`."""
    render("stability", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    there = {name: present(inputs.histories.get(name, {})) for name in spec.variants}
    absent = absent_notes(spec.variants, there, inputs.histories, inputs.failed)
    found = {name: read_histories(files) for name, files in there.items() if files}
    if not found:
        return style.nothing(spec.title), absent
    rule = inputs.facts["rules"]
    measures = [("overall", metric) for metric in rule.values()]
    measures += [(task, about.metric) for task, about in TASKS.items()]
    every = [run for runs in found.values() for run in runs]
    measures = [m for m in measures if any(Of("dev", *m) in run.rows for run in every)]
    figure, panels = rows_of_panels([spec.variants[name] for name in found], len(measures))
    short: dict[str, int] = {}
    for axes, measure in zip(panels, measures, strict=True):
        spreads: dict[float, Interval | None] = {}
        best: dict[float, Interval | None] = {}
        for row, (name, runs) in enumerate(found.items()):
            curve = curve_of(runs, Of("dev", *measure))
            if curve is None:
                continue
            end = curve.values[:, -spec.last :]
            if end.shape[1] < spec.last:
                short[spec.variants[name]] = end.shape[1]
            low, high = (float(of.mean()) for of in (end.min(axis=1), end.max(axis=1)))
            spreads[row] = Interval(float(end.mean()), low, high, len(end))
            top = float(np.mean(curve.values.max(axis=1)))
            best[row] = Interval(top, None, None, len(end))
        marks(axes, spreads, style.look(0), label="last epochs")
        marks(axes, best, style.look(4), filled=False, label="best epoch")
        axes.set_xlabel(TITLES[measure[0]].replace(" ", "\n", 1))
    figure.suptitle(spec.title)
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1)
    counts = sorted({len(runs) for runs in found.values()})
    over = "1 seed" if counts == [1] else f"mean of {' or '.join(map(str, counts))} seeds"
    said = (
        f"Bars: smallest to largest dev score of the last {spec.last} epochs; points: their mean; "
        f"hollow: the best epoch of each score by itself; {over}."
    )
    notes = [said]
    if short:
        fewer = listed([f"{label} ({count})" for label, count in short.items()])
        notes.append(f"Fewer epochs than that: {fewer}.")
    return figure, [*notes, *absent]
