"""Figures with a row per variant: panels that share rows, means with intervals, floors."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.scored import CROSS, bars, ends

_ROW, _LEGEND = 0.155, 0.2  # inches
_SPAN = 0.2  # of a score: a shorter axis would make differences that are noise look large
LABEL = 38  # characters of a row's label: more would leave no room for the panels


def rows_of_panels(labels: Sequence[str], count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` panels that share rows, labelled from the top by `labels`."""
    height = 1.1 + _ROW * len(labels)
    figure = style.new_figure(style.wide(), height + _LEGEND)
    grid = figure.add_gridspec(2, count, height_ratios=[_LEGEND, height])
    panels = [figure.add_subplot(grid[1, 0])]
    panels += [figure.add_subplot(grid[1, n], sharey=panels[0]) for n in range(1, count)]
    for axes in panels:
        axes.tick_params(axis="y", length=0, labelleft=axes is panels[0])
        axes.xaxis.set_major_locator(MaxNLocator(nbins=3, steps=[1, 2, 5, 10]))
        axes.margins(x=0.12)
    panels[0].set_yticks(range(len(labels)), [style.shorten(label, LABEL) for label in labels])
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    return figure, panels


def marks(
    axes: Axes,
    found: Sequence[Interval | None],
    look: style.Look = style.LOOKS[0],
    filled: bool = True,
    label: str | None = None,
    lower: float = 0.0,
    crossed: Collection[int] = (),
) -> None:
    """Draw each row's mean as a point and its interval as a bar, `lower` rows further down.

    The rows in `crossed` have a cross for a point: they are not above their floor.
    """
    there = {row: one for row, one in enumerate(found) if one is not None}
    for part, name, shape in (
        ([row for row in there if row not in crossed], label, look),
        ([row for row in there if row in crossed], CROSS, style.cross(look)),
    ):
        if not part:
            continue
        means, reach = [there[row].mean for row in part], bars(there[row] for row in part)
        face = look.color if filled else "white"
        about: dict[str, Any] = {"xerr": reach, "markerfacecolor": face, "label": name}
        style.points(axes, means, [row + lower for row in part], shape, **about)


def floor_lines(panels: Mapping[str, Axes], floors: Mapping[str, float]) -> None:
    """Draw the floor of each measure in its panel, and make the panels wide enough."""
    for measure, axes in panels.items():
        if measure in floors:
            axes.axvline(floors[measure], **style.FLOOR, label="floor", zorder=1)
    widen(list(panels.values()))


def limit(axes: Axes, shown: Iterable[Interval | None], line: float | None) -> bool:
    """Cut bars that would leave a panel's points unreadable, and return whether there are any.

    A vertical `line` stays in the panel, too.
    """
    there = [one for one in shown if one is not None]
    low, high = ends([*there, *([] if line is None else [Interval(line, None, None, 0)])])
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


def rows_legend(panels: Sequence[Axes]) -> None:
    """Put one legend of everything in the panels above them, in a row."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure, place = panels[0].figure, panels[0].get_subplotspec()
    assert figure is not None and place is not None
    above = figure.add_subplot(place.get_gridspec()[0, :])
    above.set_axis_off()
    about: dict[str, Any] = {"loc": "center", "ncols": max(1, len(found)), "borderpad": 0}
    above.legend(list(found.values()), list(found), **about)
