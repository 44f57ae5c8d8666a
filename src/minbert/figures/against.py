"""Scores against other scores: a panel a measure, a marker a paper, the line where both agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.scored import TITLES
from minbert.scoring import OVERALL_TASKS

MEASURES = (*OVERALL_TASKS, "other", "overall")
_COLUMNS = 3
_HEADS = {**TITLES, "other": "Other tasks, accuracy"}


class Point(NamedTuple):
    """One score twice; `test` points are hollow."""

    paper: str
    measure: str
    x: Interval
    y: Interval
    test: bool = False


def scatter(points: Sequence[Point], papers: Sequence[str], title: str, x: str, y: str) -> Figure:
    """Return a figure of `points`; `x` and `y` say what the axes are, `papers` set the markers."""
    measures = [m for m in MEASURES if any(p.measure == m for p in points)]
    cells = len(measures) + 1  # the last is the legend's
    rows = -(-cells // _COLUMNS)
    figure = style.new_figure(style.WIDE, 0.3 + 2.2 * rows)
    grid = figure.add_gridspec(rows, _COLUMNS)
    looks = {paper: style.look(number) for number, paper in enumerate(papers)}
    for number, measure in enumerate(measures):
        axes = figure.add_subplot(grid[divmod(number, _COLUMNS)])
        of = [point for point in points if point.measure == measure]
        _panel(axes, of, looks)
        axes.set_title(f"{_HEADS[measure]} (n = {len(of)})")
        axes.set(xlabel=x, ylabel=y)
    legend = figure.add_subplot(grid[divmod(cells - 1, _COLUMNS)])
    legend.set_axis_off()
    _legend(legend, points, looks)
    figure.suptitle(title)
    return figure


def _panel(axes: Axes, points: Sequence[Point], looks: dict[str, style.Look]) -> None:
    reached = [value for p in points for i in (p.x, p.y) for value in i[:3] if value is not None]
    room = 0.06 * (max(reached) - min(reached)) or 0.05
    ends = (min(reached) - room, max(reached) + room)
    axes.plot(ends, ends, color="0.6", linewidth=0.8, linestyle="-", marker="", zorder=1)
    axes.set(xlim=ends, ylim=ends, box_aspect=1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    for point in points:
        look = looks[point.paper]
        axes.errorbar(
            [point.x.mean],
            [point.y.mean],
            xerr=_bar(point.x),
            yerr=_bar(point.y),
            color=look.color,
            marker=look.marker,
            markerfacecolor="white" if point.test else look.color,
            markersize=4,
            elinewidth=0.7,
            linestyle="none",
            zorder=3,
        )


def _bar(found: Interval) -> list[list[float]] | None:
    if found.low is None or found.high is None:
        return None
    return [[found.mean - found.low], [found.high - found.mean]]


def _legend(axes: Axes, points: Sequence[Point], looks: dict[str, style.Look]) -> None:
    for paper, look in looks.items():
        if any(point.paper == paper for point in points):
            label = style.shorten(paper, 30)
            axes.plot([], [], color=look.color, marker=look.marker, linestyle="none", label=label)
    if len({point.test for point in points}) > 1:
        for word, face in (("dev", "0.4"), ("test", "white")):
            style_of: dict[str, Any] = {"color": "0.4", "markerfacecolor": face}
            axes.plot([], [], "o", label=f"scored on {word}", **style_of)
    axes.plot([], [], color="0.6", linewidth=0.8, label="both alike")
    axes.legend(loc="center", handlelength=1.6)
