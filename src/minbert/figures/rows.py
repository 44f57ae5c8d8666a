"""Figures with a row per variant: panels that share rows, means with intervals, floors."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.scored import CROSS, bars, ends

_ROW = 0.155  # inches
_SPAN = 0.2  # of a score: a shorter axis would make differences that are noise look large
_TITLE = 8  # points: a panel's title
_LINES = 3  # of a title; with more the figure grows, so that the panels keep their height
_LEAST = 8  # characters of a line of a title
LABEL = 38  # characters of a row's label: more would leave no room for the panels


def rows_of_panels(labels: Sequence[str], titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels that share rows, labelled from the top by `labels`.

    Each panel has one of `titles` below it, in lines that fit there.
    """
    short = [style.shorten(label, LABEL) for label in labels]
    room = style.characters(style.wide(), _TITLE) - max(map(len, short))
    across = max(_LEAST, room // len(titles))
    wrapped = [
        "\n".join(textwrap.fill(line, across) for line in title.splitlines()) for title in titles
    ]
    lines = max(title.count("\n") + 1 for title in wrapped)
    height = 0.7 + _ROW * len(labels) + max(0, lines - _LINES) * 1.3 * _TITLE / 72
    figure, (panels,) = style.grid(1, len(titles), height, sharey=True)
    for axes, title in zip(panels, wrapped, strict=True):
        axes.set_xlabel(title)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=3, steps=[1, 2, 5, 10]))
        axes.margins(x=0.12)
    panels[0].set_yticks(range(len(labels)), short)
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    return figure, panels


def marks(
    axes: Axes,
    found: Sequence[Interval | None],
    look: style.Look = style.LOOKS[0],
    filled: bool = True,
    label: str | None = None,
    lower: float = 0.0,
) -> None:
    """Draw each row's mean as a point and its interval as a bar, `lower` rows further down.

    Rows that have not learnt have a cross for a point.
    """
    face = look.color if filled else "white"
    for flat, name, shape in ((False, label, look), (True, CROSS, style.cross(look))):
        part = {n: one for n, one in enumerate(found) if one and (one.learned is False) == flat}
        if part:
            means, rows = [one.mean for one in part.values()], [n + lower for n in part]
            about: dict[str, Any] = {"xerr": bars(part.values()), "label": name}
            style.points(axes, means, rows, shape, markerfacecolor=face, **about)


def floor_lines(axes: Axes, found: Sequence[Interval | None]) -> None:
    """Draw the floors of all rows, as one line if it is one number, and widen the panel."""
    about = {**style.FLOOR, "zorder": 1}
    there = {n: one.floor for n, one in enumerate(found) if one and one.floor is not None}
    if len(set(there.values())) == 1:
        axes.axvline(next(iter(there.values())), **about)
    elif there:
        ends_of_rows = [r - 0.5 for r in there], [r + 0.5 for r in there]
        axes.vlines(list(there.values()), *ends_of_rows, **about)
    widen([axes])


def limit(axes: Axes, shown: Iterable[Interval | None], lines: Iterable[float]) -> bool:
    """Cut bars that would leave a panel's points unreadable, and return whether there are any.

    Vertical `lines` stay in the panel, too.
    """
    there = [one for one in shown if one is not None]
    low, high = ends([*there, *(Interval(line) for line in lines)])
    reached = [value for one in there for value in one[1:3] if value is not None]
    if all(low <= value <= high for value in reached):
        return False
    left, right = axes.get_xlim()
    axes.set_xlim(max(left, low), min(right, high))
    return True


def widen(panels: Sequence[Axes]) -> None:
    """Make each panel at least `_SPAN` wide."""
    for axes in panels:
        low, high = axes.get_xlim()
        short = max(0.0, _SPAN - (high - low)) / 2
        axes.set_xlim(low - short, high + short)


def rows_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Put one legend of everything in the panels above them."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    style.add_legend(figure, found.values())
