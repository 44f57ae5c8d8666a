"""Panels of curves over epochs, or over layers: what they share is drawn once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.figures import style
from minbert.figures.histories import Curve, is_smoothed, running_mean
from minbert.figures.inputs import mean_of

DEV, TRAIN = style.LOOKS[0], style.LOOKS[1]
THIN: dict[str, Any] = {"linewidth": 0.6, "faint": False}
_TITLE = {6: 22, 4: 24}  # characters of a title, by panels in a row
_POINTS = 400  # of a line at most: more would only make the PDF large


class Line(NamedTuple):
    """A line of a panel; `about` is for `draw_curve`."""

    curve: Curve | None
    look: style.Look
    about: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Panel:
    """Curves over epochs from `first` on, or over layers, if there are `ticks`.

    Panels of one `scale` have the same height of axes, at least `span`.
    """

    title: str
    lines: Sequence[Line]
    ylabel: str = ""
    first: int = 0
    floors: Sequence[float] = ()
    scale: Any = None
    span: float = 0.0
    ticks: Sequence[str] = ()

    @property
    def xlabel(self) -> str:
        """What the panel is over."""
        return "Layer (E: embeddings, P: pooler)" if self.ticks else "Epoch"


Rows = Sequence[Sequence[Panel]]


def draw(rows: Rows, entries: Sequence[Any], height: float) -> Figure:
    """Return a figure of panels, each `height` inches high; empty ones only say so."""
    across = max(map(len, rows))
    width = style.column() if [*map(len, rows)] == [1] else style.wide()
    floor = style.floor_entry([panel for row in rows for panel in row if panel.floors])
    figure, grid = style.grid(len(rows), across, height, [*entries, *floor], width)
    size = 6.5 if across > 3 else 8
    used: dict[tuple[int, int], tuple[Axes, Panel]] = {}
    for n, row in enumerate(grid):
        for m, axes in enumerate(row):
            panel = rows[n][m] if m < len(rows[n]) else None
            if panel and any(line.curve for line in panel.lines):
                _draw_panel(axes, panel, size, _TITLE.get(across, 28))
                used[n, m] = axes, panel
            else:
                style.say(axes, panel.title and f"{panel.title}\nno run" if panel else "")
    for (n, m), (axes, panel) in used.items():
        below, left = used.get((n + 1, m)), used.get((n, m - 1))
        if below is None or below[1].xlabel != panel.xlabel:
            axes.set_xlabel(panel.xlabel, fontsize=size)
        if left is None or left[1].ylabel != panel.ylabel:
            axes.set_ylabel(panel.ylabel, fontsize=size)
        if panel.scale is None:  # Limits that are set would not follow a logarithmic axis.
            continue
        alike = [other for other, of in used.values() if of.scale == panel.scale]
        low, high = ([each.get_ylim()[end] for each in alike] for end in (0, 1))
        short = max(0.0, panel.span - (max(high) - min(low))) / 2
        axes.set_ylim(min(low) - short, max(high) + short)
    return figure


def _draw_panel(axes: Axes, panel: Panel, size: float, across: int) -> None:
    for line in panel.lines:
        if line.curve is not None:
            draw_curve(axes, line.curve, line.look, **line.about)
    for drawn in axes.lines if size < 8 else ():
        drawn.set(markersize=2.2, linewidth=min(1.0, drawn.get_linewidth()))
    for at in panel.floors:
        axes.axhline(at, **style.FLOOR, zorder=1)
    if panel.span:
        axes.axhline(0, **style.ZERO)
    head = [style.shorten(text, across) for text in panel.title.splitlines()]
    axes.set_title("\n".join(head), fontsize=size, loc="left" if size < 8 else "center")
    axes.tick_params(labelsize=min(7, size - 0.5), pad=1.5)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks)
        return
    longest = max(line.curve.epochs[-1] for line in panel.lines if line.curve)
    room = 0.02 * (longest - panel.first) or 0.5
    axes.set_xlim(panel.first - room * (panel.first > 0), longest + room)
    bins = 3 if across < 24 else 6
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], nbins=bins))


def draw_curve(
    axes: Axes,
    curve: Curve,
    look: style.Look,
    window: float = 0.0,
    faint: bool = True,
    band: bool = True,
    **more: Any,
) -> None:
    """Draw mean and `band` over seeds, smoothed over `window` epochs, and `faint` the raw mean.

    `more` says how the line of the mean looks.
    """
    smooth = running_mean(curve.epochs, curve.values, window)
    if faint and is_smoothed(curve, window):
        raw = curve.values.mean(axis=0)
        axes.plot(curve.epochs, raw, color=look.color, linewidth=0.4, alpha=0.25, zorder=1)
    shown = np.unique(np.linspace(0, len(curve.epochs) - 1, _POINTS).round().astype(int))
    epochs, smooth = curve.epochs[shown], smooth[:, shown]
    if band and len(smooth) > 1:
        ends = smooth.min(axis=0), smooth.max(axis=0)
        axes.fill_between(epochs, *ends, color=look.color, alpha=0.2, linewidth=0, zorder=2)
    about: dict[str, Any] = {**look._asdict(), "markevery": max(1, len(shown) // 8), "zorder": 3}
    # Not clipped: the markers of the first and last epoch lie on the axes' edges.
    axes.plot(epochs, smooth.mean(axis=0), **{**about, **more}, clip_on=False)


def lines_note(counts: Iterable[int], smoothed: str = "") -> str:
    """Return the note on lines and bands over so many seeds."""
    line = mean_of(counts)
    band = "" if line == "1 seed" else " Bands: smallest to largest seed."
    return f"Lines: {line}{smoothed}.{band}"


def smoothed_note(lines: Iterable[Line], window: float, where: str = "") -> str:
    """Return the note on lines smoothed over `window` epochs, if that smooths any."""
    curves = [line.curve for line in lines if line.curve]
    said = f", running mean over {window:.2g} epoch{'s' * (f'{window:.2g}' != '1')}"
    smoothed = any(is_smoothed(curve, window) for curve in curves)
    return lines_note(map(len, (of.values for of in curves)), f"{said} ({where})" * smoothed)
