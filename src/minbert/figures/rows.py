"""Rows of variants with a panel for each measure, which rankings and ladders are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.statistics import Interval
from minbert.figures import style

ROW = 0.155
"""Inches a row."""

LABEL = 38
"""Characters that a row's label may have: more would leave no room for the panels."""


def rows_of_panels(labels: Sequence[str], count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` panels that share rows, which `labels` name from the top."""
    figure = style.new_figure(style.WIDE, 1.2 + ROW * len(labels))
    grid = figure.add_gridspec(1, count)
    panels: list[Axes] = []
    for column in range(count):
        panels.append(figure.add_subplot(grid[column], sharey=panels[0] if panels else None))
    for axes in panels:
        axes.tick_params(axis="y", length=0, labelleft=axes is panels[0])
        axes.xaxis.set_major_locator(MaxNLocator(nbins=3, steps=[1, 2, 5, 10]))
        axes.margins(x=0.12)
    panels[0].set_yticks(range(len(labels)), [style.shorten(label, LABEL) for label in labels])
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    return figure, panels


def marks(
    axes: Axes,
    found: Mapping[float, Interval | None],
    look: style.Look = style.LOOKS[0],
    filled: bool = True,
    label: str | None = None,
) -> None:
    """Draw means as points in their rows, with their intervals as bars; nothing for a None."""
    there = {row: one for row, one in found.items() if one is not None}
    means = [one.mean for one in there.values()]
    below = [one.mean - (one.mean if one.low is None else one.low) for one in there.values()]
    above = [(one.mean if one.high is None else one.high) - one.mean for one in there.values()]
    axes.errorbar(
        means,
        list(there),
        xerr=[below, above],
        color=look.color,
        marker=look.marker,
        markerfacecolor=look.color if filled else "white",
        elinewidth=0.9,
        linestyle="none",
        label=label,
        zorder=3,
    )
