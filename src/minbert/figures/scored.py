"""Scores by variant, split and measure; figures with a row per variant, and scatter plots."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate import reading
from minbert.evaluate.reading import METRIC_TITLES, Of
from minbert.evaluate.statistics import Interval, interval
from minbert.figures import style
from minbert.figures.inputs import Inputs, absent_notes, mean_of
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.task import TASKS

_ROW = 0.155  # inches
LABEL = 38  # characters of a row's label: more would leave no room for the panels
_ACROSS = 3  # panels of a scatter plot in a row

TITLES = {name: f"{task.title} {METRIC_TITLES[task.metric]}" for name, task in TASKS.items()}
TITLES |= {"other": "Other tasks, accuracy"}
TITLES |= dict.fromkeys(("overall", *RULES), "Overall score")
"""The axis title of each measure."""

MEASURES = (*OVERALL_TASKS, "other", "overall")  # the panels of a scatter plot over all papers

Scores = dict[Of, dict[int, float]]
"""Scores by seed."""


def read_scores(path: Path, paper: str) -> Scores:
    """Return the scores of `paper`; none if there is no such file (its runs failed)."""
    if not path.is_file():
        return {}
    found = reading.read_scores(path, paper)
    return {of: {seed: s.value for seed, s in seeds.items()} for of, seeds in found.items()}


class PaperScores(NamedTuple):
    """The scores of one paper on one split.

    `shown` has the scored seeds of each variant of the figure, `measures` the rule and the tasks
    that have scores, `absent` the notes on missing runs.
    """

    rule: str
    scores: Scores
    shown: dict[str, set[int]]
    measures: list[str]
    absent: list[str]


def paper_scores(inputs: Inputs, variants: Mapping[str, str], split: str = "dev") -> PaperScores:
    """Return the scores on `split` of the only paper among the inputs."""
    ((paper, path),) = inputs.scores.items()
    scores = {of: v for of, v in read_scores(path, paper).items() if of.split == split}
    shown: dict[str, set[int]] = {name: set() for name in variants}
    for of, values in scores.items():
        if of.variant in shown:
            shown[of.variant] |= set(values)
    seeds = set().union(*shown.values())
    absent = absent_notes(variants, shown, dict.fromkeys(variants, seeds), inputs.failed)
    rule = inputs.facts["rules"][paper] if "rules" in inputs.facts else ""
    measures = [m for m in (rule, *TASKS) if any(of.measure == m for of in scores)]
    return PaperScores(rule, scores, shown, measures, absent)


def over_seeds(scores: Scores) -> dict[Of, Interval]:
    """Return the mean of each score with its interval over seeds."""
    return {of: interval(list(values.values())) for of, values in scores.items()}


def seeds_note(counts: Iterable[int], what: str = "Points") -> list[str]:
    """Return the note on how many seeds are shown and what their interval is."""
    seeds = set(counts)
    more = "; bars: 95 % interval over seeds (Student t)"
    more = ", so no interval over seeds" if seeds == {1} else more
    return [f"{what}: {mean_of(seeds)}{more}."] if seeds else []


def rows_of_panels(labels: Sequence[str], count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` panels that share rows, labelled from the top by `labels`."""
    figure = style.new_figure(style.WIDE, 1.2 + _ROW * len(labels))
    panels = list(figure.subplots(1, count, sharey=True, squeeze=False)[0])
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
) -> None:
    """Draw each row's mean as a point and its interval as a bar, `lower` rows further down."""
    there = {row + lower: one for row, one in enumerate(found) if one is not None}
    means, reach = [one.mean for one in there.values()], bars(there.values())
    face = look.color if filled else "white"
    style.points(axes, means, list(there), look, xerr=reach, markerfacecolor=face, label=label)


def bars(intervals: Iterable[Interval]) -> list[list[float]]:
    """Return how far each interval reaches below and above its mean; 0 without an interval."""
    found = list(intervals)
    below = [0.0 if one.low is None else one.mean - one.low for one in found]
    return [below, [0.0 if one.high is None else one.high - one.mean for one in found]]


def rows_legend(panels: Sequence[Axes]) -> None:
    """Put the legend of panels in rows above the first one."""
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1)


class Point(NamedTuple):
    """One score twice; `test` points are hollow."""

    paper: str
    measure: str
    x: Interval
    y: Interval
    test: bool = False


def scatter(points: Sequence[Point], papers: Sequence[str], x: str, y: str) -> Figure:
    """Return a figure of `points` with axes titled `x` and `y`; `papers` set the markers."""
    measures = [m for m in MEASURES if any(p.measure == m for p in points)]
    cells = len(measures) + 1  # the last is the legend's
    rows = -(-cells // _ACROSS)
    figure = style.new_figure(style.WIDE, 0.3 + 2.2 * rows)
    grid = figure.add_gridspec(rows, _ACROSS)
    looks = {paper: style.look(number) for number, paper in enumerate(papers)}
    for number, measure in enumerate(measures):
        axes = figure.add_subplot(grid[divmod(number, _ACROSS)])
        of = [point for point in points if point.measure == measure]
        _scatter_panel(axes, of, looks)
        axes.set(xlabel=x, ylabel=y, title=f"{TITLES[measure]} (n = {len(of)})")
    legend = figure.add_subplot(grid[divmod(cells - 1, _ACROSS)])
    legend.set_axis_off()
    shown = {point.paper for point in points}
    entries = [
        style.entry(style.shorten(paper, 30), look, linestyle="none")
        for paper, look in looks.items()
        if paper in shown
    ]
    if len({point.test for point in points}) > 1:
        grey = style.Look("0.4", "none", "o")
        entries.append(style.entry("scored on dev", grey))
        entries.append(style.entry("scored on test", grey, markerfacecolor="white"))
    entries.append(style.entry("equal scores", style.Look("0.6", "-", ""), linewidth=0.8))
    legend.legend(handles=entries, loc="center", handlelength=1.6)
    return figure


def _scatter_panel(axes: Axes, points: Sequence[Point], looks: dict[str, style.Look]) -> None:
    reached = [value for p in points for i in (p.x, p.y) for value in i[:3] if value is not None]
    room = 0.06 * (max(reached) - min(reached)) or 0.05
    ends = (min(reached) - room, max(reached) + room)
    axes.plot(ends, ends, color="0.6", linewidth=0.8, linestyle="-", marker="", zorder=1)
    axes.set(xlim=ends, ylim=ends, box_aspect=1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    for point in points:
        look = looks[point.paper]
        about: dict[str, Any] = {"markersize": 4, "elinewidth": 0.7, "xerr": bars([point.x])}
        about |= {"yerr": bars([point.y])} | ({"markerfacecolor": "white"} if point.test else {})
        style.points(axes, [point.x.mean], [point.y.mean], look, **about)
