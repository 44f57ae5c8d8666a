"""Panels in rows and columns under one legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from minbert.figures import style

_POINTS = 72
_SIZE = 7  # points: the legend's letters
_LINE = 1.45 * _SIZE / _POINTS  # inches: a row of the legend


def entry(label: str, look: style.Look, **change: Any) -> Line2D:
    """Return a legend's entry for what is drawn with this look."""
    about = {"color": look.color, "linestyle": look.linestyle, "marker": look.marker}
    return Line2D([], [], label=label, **{**about, **change})


def entries_of(labels: Mapping[str, str]) -> list[Line2D]:
    """Return an entry for each of {variant: label}, in the looks of their order."""
    return [entry(label, style.look(n)) for n, label in enumerate(labels.values())]


def panel_grid(
    rows: int, columns: int, height: float, entries: Sequence[Line2D]
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure over both columns, and its axes by row; each row is `height` inches high.

    `entries` stand in one legend above all panels, which the figure grows by.
    """
    characters = int(style.WIDE * _POINTS / _SIZE / 0.6) - 7
    labels = [style.shorten(str(line.get_label()), characters) for line in entries]
    widest = _SIZE * (7 + 0.56 * max((len(label) for label in labels), default=1))
    across = max(1, min(len(labels), int(style.WIDE * _POINTS / widest)))
    above = _LINE * -(-len(labels) // across)
    figure = style.new_figure(style.WIDE, 0.35 + above + rows * height)
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[above or 0.01, *[height] * rows])
    if entries:
        legend = figure.add_subplot(grid[0, :])
        legend.set_axis_off()
        about: dict[str, Any] = {"loc": "center", "ncols": across, "borderpad": 0}
        legend.legend(list(entries), labels, handlelength=3.2, columnspacing=1.2, **about)
    made = [
        [figure.add_subplot(grid[row + 1, column]) for column in range(columns)]
        for row in range(rows)
    ]
    return figure, made
