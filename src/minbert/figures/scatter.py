"""Scatter plots of one score against another, over all papers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.scored import CROSS, bars, ends, title_of
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS

OVERALL_RULES = "Overall: a plain or normalised mean, by each paper's own rule."
_PANELS = (*OVERALL_TASKS, "other", "overall")
_ACROSS = 3  # panels in a row
_CROSS = style.Look("0.2", "none", "x")


class Point(NamedTuple):
    """One score twice: of a task, or `overall`.

    Markers are hollow, so that those that lie on others hide none; `test` points are filled. Those
    that are not above their floor have a cross on the marker.
    """

    paper: str
    measure: str
    x: Interval
    y: Interval
    test: bool = False
    crossed: bool = False


def scatter(points: Sequence[Point], papers: Sequence[str], x: str, y: str) -> Figure:
    """Return a figure of `points` with axes titled `x` and `y`; `papers` set the markers."""
    shown = [panel for panel in _PANELS if any(_panel_of(p) == panel for p in points)]
    cells = len(shown) + 1  # the last is the legend's
    rows = -(-cells // _ACROSS)
    figure = style.new_figure(style.wide(), 0.35 + 2.5 * rows)
    grid = figure.add_gridspec(rows, _ACROSS)
    looks = {paper: style.look(number) for number, paper in enumerate(papers)}
    for number, panel in enumerate(shown):
        axes = figure.add_subplot(grid[divmod(number, _ACROSS)])
        of = [point for point in points if _panel_of(point) == panel]
        _draw(axes, of, looks)
        axes.set(xlabel=x, ylabel=y)
        measures = {point.measure for point in of}
        tasks = ", ".join(TASKS[name].title for name in TASKS if name in measures)
        title = title_of(panel) + (f": {tasks}" if panel == "other" else "")
        axes.set_title(f"{style.shorten(title, 38)}\nn = {len(of)}", fontsize=7.5)
    legend = figure.add_subplot(grid[divmod(cells - 1, _ACROSS)])
    legend.set_axis_off()
    there = {point.paper for point in points}
    entries = [
        style.entry(style.shorten(paper, 30), look, linestyle="none", mfc="none")
        for paper, look in looks.items()
        if paper in there
    ]
    grey = style.Look("0.4", "none", "o")
    if len({point.test for point in points}) > 1:
        entries.append(style.entry("scored on dev", grey, mfc="none"))
        entries.append(style.entry("scored on test", grey))
    if any(point.crossed for point in points):
        entries.append(style.entry(CROSS, _CROSS))
    entries.append(style.entry("equal scores", style.Look("0.6", "-", ""), linewidth=0.8))
    legend.legend(handles=entries, loc="center", handlelength=1.6)
    return figure


def _panel_of(point: Point) -> str:
    return point.measure if point.measure in _PANELS else "other"


def _draw(axes: Axes, points: Sequence[Point], looks: dict[str, style.Look]) -> None:
    low, high = ends([one for point in points for one in (point.x, point.y)])
    axes.plot(
        (low, high), (low, high), color="0.6", linewidth=0.8, linestyle="-", marker="", zorder=1
    )
    axes.set(xlim=(low, high), ylim=(low, high), box_aspect=1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    for point in points:
        look = looks[point.paper]
        at = ([point.x.mean], [point.y.mean])
        about: dict[str, Any] = {"markersize": 4, "markeredgewidth": 0.8, "elinewidth": 0.7}
        about |= {"xerr": bars([point.x]), "yerr": bars([point.y])}
        about |= {} if point.test else {"markerfacecolor": "none"}
        style.points(axes, *at, look, **about)
        if point.crossed:
            axes.plot(*at, **_CROSS._asdict(), markersize=7, markeredgewidth=0.6, zorder=4)
