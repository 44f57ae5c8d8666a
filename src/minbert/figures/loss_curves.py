"""The training loss of several variants over epochs (the hybrid-bert paper, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from pydantic import Field

from minbert.common.errors import UserError
from minbert.figures import style
from minbert.figures.curves import (
    Curve,
    Of,
    curve_of,
    draw_curve,
    epoch_axis,
    is_smoothed,
    lines_notes,
    read_histories,
)
from minbert.figures.inputs import Inputs, absent_notes, present
from minbert.figures.spec import FigureSpec, render


class Spec(FigureSpec):
    """What is drawn: `variants` as {name: label}, in the order of the legend.

    `task`, `metric` and `split` choose the rows of the history. `smooth` is the width of the
    running mean as a share of the epochs shown; 0 draws the raw curve only.
    """

    variants: dict[str, str] = Field(min_length=1)
    task: str = "overall"
    metric: str = "loss"
    split: str = "train"
    ylabel: str = "Multitask training loss"
    smooth: float = Field(default=1 / 20, ge=0, lt=1)


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the curves of `spec` (see `Spec`) from the histories; save `STEM.pdf`, `STEM.png`.

    What of the histories is absent is said in a note under the axes. A variant that the spec does
    not name is not drawn. A spec or a history that is malformed raises `UserError`.
    """
    render("loss-curves", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    figure = style.new_figure()
    axes = figure.add_subplot()
    curves, absent = _read(spec, inputs)
    longest = max((curve.epochs[-1] for curve in curves.values()), default=1.0)
    window = spec.smooth * longest
    for index, (name, label) in enumerate(spec.variants.items()):
        if name in curves:
            draw_curve(axes, curves[name], label, style.look(index), window)
    figure.suptitle(spec.title)
    axes.set(xlabel="Epoch", ylabel=f"{spec.ylabel} (log scale)", yscale="log")
    epoch_axis(axes, longest)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    if curves:
        style.add_legend(axes)
    else:
        axes.text(0.5, 0.5, "no run yet", transform=axes.transAxes, ha="center", color="0.4")
    return figure, _notes(curves, absent, window)


def _read(spec: Spec, inputs: Inputs) -> tuple[dict[str, Curve], list[str]]:
    """Return the curve of each variant that has one, and notes that name what is absent."""
    of = Of(spec.split, spec.task, spec.metric)
    there = {name: present(inputs.histories.get(name, {})) for name in spec.variants}
    curves = {}
    for name, files in there.items():
        histories = read_histories(files)
        for history in histories:
            if of not in history.rows:
                raise UserError(
                    f"{history.path}: no row of task '{spec.task}', metric '{spec.metric}', split "
                    f"'{spec.split}'; the figure's spec names what the history does not have"
                )
        curve = curve_of(histories, of)
        if curve is not None:
            curves[name] = curve
    return curves, absent_notes(spec.variants, there, inputs.histories, inputs.failed)


def _notes(curves: Mapping[str, Curve], absent: list[str], window: float) -> list[str]:
    if not curves:
        return absent
    smoothed = window if any(is_smoothed(curve, window) for curve in curves.values()) else None
    counts = (len(curve.values) for curve in curves.values())
    return [lines_notes(counts, smoothed, " (faint: as logged)"), *absent]
