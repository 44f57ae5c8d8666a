"""Scores against each other, over all papers: the papers' numbers and ours, or dev and test."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.reading import Of
from minbert.evaluate.seeds import over_seeds
from minbert.evaluate.statistics import Interval
from minbert.figures import scored, style
from minbert.figures.inputs import Drawn, Inputs, mean_of
from minbert.spec.figures import PublishedReproduced
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS

_OVERALL = "Overall: a plain or normalised mean, by each paper's own rule."
_PANELS = (*OVERALL_TASKS, "other", "overall")
_SINGLE = "95 % interval for a single run, as in the papers (Student t)"


class Point(NamedTuple):
    """One score twice: of a task, or `overall`.

    Markers are hollow, so that those that lie on others hide none; `test` points are filled.
    """

    paper: str
    measure: str
    x: Interval
    y: Interval
    test: bool = False

    @property
    def panel(self) -> str:
        """The panel that it is in."""
        return self.measure if self.measure in _PANELS else "other"


def published_reproduced(options: PublishedReproduced, inputs: Inputs) -> Drawn:
    """Draw each published number, or dev score, against our score on the paper's split, or test."""
    points: list[Point] = []
    without = 0
    papers = [about["paper"] for about in inputs.papers]
    for about in inputs.papers:
        paper, rule = about["paper"], about["rule"]
        scores = scored.read_scores(inputs.scores[paper], paper)
        means = over_seeds(scores, about["overall_tasks"])
        if options.against == "dev":
            points += _on_dev_and_test(paper, rule, means)
            continue
        for row in (row for row in about["rows"] if row["table"]):
            made = list(_published(paper, row, rule, means))
            points += made
            without += not made
    ours = [point.y for point in points]
    if options.against == "dev":
        if not points:
            return style.nothing("no test labels"), ["No variant was scored on labelled test data."]
        return scatter(points, papers, "dev", "test"), [
            f"Each variant that was scored on test. {_OVERALL}",
            scored.crossed_note(ours),
            scored.seeds_note(ours),
        ]
    notes = [f"Published rows without our score, as on a test without labels: {without}."]
    if not points:
        return style.nothing(), notes
    bars = f"; bars: {_SINGLE}. {scored.CUT}" if any(one.n > 1 for one in ours) else ""
    return scatter(points, papers, "published", "ours"), [
        f"{len(points)} numbers of the papers' tables. {_OVERALL}",
        scored.crossed_note(ours),
        f"Ours: {mean_of(one.n for one in ours)}{bars or ', so no intervals.'}",
        *notes,
    ]


def _on_dev_and_test(paper: str, rule: str, means: Mapping[Of, Interval]) -> Iterator[Point]:
    """Yield the scores that variants have on both dev and test."""
    for of, test in means.items():
        on_dev = of._replace(split="dev")
        shown = "overall" if of.measure == rule else of.measure
        if of.split == "test" and on_dev in means and shown in ("overall", *TASKS):
            yield Point(paper, shown, means[on_dev], test)


def single_run(of_mean: Interval) -> Interval:
    """Return a mean over n seeds with the 95 % interval of one more run, as a published number is.

    mean +- t * s * sqrt(1 + 1 / n), which is sqrt(n + 1) times as wide as the mean's own. None if
    there is one run, which says nothing of others.
    """
    mean, low, high, n, *_ = of_mean
    if n == 1 or low is None or high is None:
        return of_mean._replace(low=None, high=None)
    wider = (n + 1) ** 0.5
    return of_mean._replace(low=mean - wider * (mean - low), high=mean + wider * (high - mean))


def _published(
    paper: str, row: Mapping[str, Any], rule: str, means: Mapping[Of, Interval]
) -> Iterator[Point]:
    """Yield the numbers of a published row that we have, too."""
    known = {of.measure: of for of in means if of[:2] == (row["variant"], row["split"])}
    others = [task for task in known if task in TASKS and task not in OVERALL_TASKS]
    other = row["other_task"] or (others[0] if len(others) == 1 else None)
    names = {**{task: task for task in OVERALL_TASKS}, "other": other, "overall": rule}
    for measure, task in names.items():
        value, of = row["published"].get(measure), known.get(task or "")
        if value is not None and of is not None:
            shown = "overall" if measure == "overall" else of.measure
            ours = single_run(means[of])
            yield Point(paper, shown, Interval(value), ours, row["split"] == "test")


def scatter(points: Sequence[Point], papers: Sequence[str], x: str, y: str) -> Figure:
    """Return a figure of `points` with axes titled `x` and `y`; `papers` set the markers."""
    shown = [panel for panel in _PANELS if any(point.panel == panel for point in points)]
    figure, panels = style.panels(len(shown), 2.5)
    splits = len({point.test for point in points})
    for axes, panel in zip(panels, shown, strict=True):
        of = [point for point in points if point.panel == panel]
        limits = style.ends([one for point in of for one in (point.x, point.y)])
        axes.plot(limits, limits, **style.ZERO, label="equal scores")
        axes.set(xlim=limits, ylim=limits, xlabel=x, ylabel=y)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
        for point in of:
            _draw(axes, point, style.look(papers.index(point.paper)), splits > 1)
        tasks = [TASKS[name].title for name in TASKS if any(name == p.measure for p in of)]
        title = scored.title_of(panel) + f": {', '.join(tasks)}" * (panel == "other")
        axes.set_title(f"{style.shorten(title, 38)}\nn = {len(of)}")
    return figure


def _draw(axes: Axes, point: Point, look: style.Look, splits: bool) -> None:
    label = point.paper + f", on {'test' if point.test else 'dev'}" * splits
    about: dict[str, Any] = {"markersize": 4, "markeredgewidth": 0.8, "elinewidth": 0.7}
    about |= {} if point.test else {"markerfacecolor": "none"}
    style.points(axes, [(point.x.mean, point.y)], look, label, xerr=style.bars([point.x]), **about)
