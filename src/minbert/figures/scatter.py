"""Scatter plots of one score against another, over all papers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.scoring import spearman
from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.scored import CROSS, bars, title_of
from minbert.spec.protocol import OVERALL_TASKS

MEASURES = (*OVERALL_TASKS, "other", "overall")  # the panels
_ACROSS = 3  # panels in a row
_RANKED = 5  # with fewer points a rank correlation says nothing


class Point(NamedTuple):
    """One score twice; `test` points are hollow, those that are not above their floor crosses."""

    paper: str
    measure: str
    x: Interval
    y: Interval
    test: bool = False
    crossed: bool = False


def scatter(points: Sequence[Point], papers: Sequence[str], x: str, y: str) -> Figure:
    """Return a figure of `points` with axes titled `x` and `y`; `papers` set the markers."""
    measures = [m for m in MEASURES if any(p.measure == m for p in points)]
    cells = len(measures) + 1  # the last is the legend's
    rows = -(-cells // _ACROSS)
    figure = style.new_figure(style.wide(), 0.35 + 2.5 * rows)
    grid = figure.add_gridspec(rows, _ACROSS)
    looks = {paper: style.look(number) for number, paper in enumerate(papers)}
    for number, measure in enumerate(measures):
        axes = figure.add_subplot(grid[divmod(number, _ACROSS)])
        of = [point for point in points if point.measure == measure]
        _panel(axes, of, looks)
        axes.set(xlabel=x, ylabel=y)
        ranked = ""
        if len(of) >= _RANKED:
            ranked = f", rank correlation {rank_correlation(of):.2f}".replace("-", "\u2212")
        axes.set_title(f"{title_of(measure)}\nn = {len(of)}{ranked}", fontsize=7.5)
    legend = figure.add_subplot(grid[divmod(cells - 1, _ACROSS)])
    legend.set_axis_off()
    shown = {point.paper for point in points}
    entries = [
        style.entry(style.shorten(paper, 30), look, linestyle="none")
        for paper, look in looks.items()
        if paper in shown
    ]
    grey = style.Look("0.4", "none", "o")
    if len({point.test for point in points}) > 1:
        entries.append(style.entry("scored on dev", grey))
        entries.append(style.entry("scored on test", grey, markerfacecolor="white"))
    if any(point.crossed for point in points):
        entries.append(style.entry(CROSS, style.cross(grey)))
    entries.append(style.entry("equal scores", style.Look("0.6", "-", ""), linewidth=0.8))
    legend.legend(handles=entries, loc="center", handlelength=1.6)
    return figure


def rank_correlation(points: Sequence[Point]) -> float:
    """Return Spearman's rank correlation of the two means."""
    return spearman([p.x.mean for p in points], [p.y.mean for p in points])


def _panel(axes: Axes, points: Sequence[Point], looks: dict[str, style.Look]) -> None:
    reached = [value for p in points for i in (p.x, p.y) for value in i[:3] if value is not None]
    room = 0.06 * (max(reached) - min(reached)) or 0.05
    ends = (min(reached) - room, max(reached) + room)
    axes.plot(ends, ends, color="0.6", linewidth=0.8, linestyle="-", marker="", zorder=1)
    axes.set(xlim=ends, ylim=ends, box_aspect=1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    for point in points:
        look = style.cross(looks[point.paper]) if point.crossed else looks[point.paper]
        about: dict[str, Any] = {"markersize": 4, "elinewidth": 0.7, "xerr": bars([point.x])}
        about |= {"yerr": bars([point.y])} | ({"markerfacecolor": "white"} if point.test else {})
        style.points(axes, [point.x.mean], [point.y.mean], look, **about)
