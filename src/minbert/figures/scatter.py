"""Scores as points: against parameters; published ones against ours; dev against test."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.reading import Of
from minbert.evaluate.seeds import over_seeds
from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs
from minbert.figures.scored import PaperScores, points_note, read_scores, title_of
from minbert.spec.figures import OfSplit, PublishedReproduced
from minbert.spec.task import TASKS

_OTHER: style.Look = {"color": "0.6", "marker": "o", "markersize": 2.5, "zorder": 2}


def score_parameters(options: OfSplit, inputs: Inputs) -> Drawn:
    """Draw all variants of one paper: overall score and each task on a split, against parameters.

    Variants on the front of any panel have a look of their own, the others are grey.
    """
    paper = PaperScores(inputs, options.split)
    counts = {row["variant"]: row["parameters"] for row in inputs.about["rows"]}
    sizes = {name: count / 1e6 for name, count in counts.items() if count}
    shown = [one for of, one in paper.means.items() if of.variant in sizes]
    if not shown:
        return style.nothing(), inputs.absent
    scores = {m: {n: one for n in sizes if (one := paper.get(n, m))} for m in paper.measures}
    fronts = {m: front(sizes, {n: one.mean for n, one in of.items()}) for m, of in scores.items()}
    named = dict.fromkeys(name for best in fronts.values() for name in best)
    looks = {name: style.look(number) for number, name in enumerate(named)}
    figure, panels = style.panels(len(scores), 1.75, 2)
    for axes, (measure, found) in zip(panels, scores.items(), strict=True):
        for name, one in found.items():
            label = inputs.variants[name] if name in looks else "other variants"
            style.points(axes, [(sizes[name], one)], looks.get(name, _OTHER), label)
        steps = [(sizes[name], found[name].mean) for name in fronts[measure]]
        axes.step(*zip(*steps, strict=True), where="post", color="0.4", lw=0.9, label="front")
        axes.margins(0.08)
        _round(axes, 5)
        axes.set(ylim=style.ends(found.values()), ylabel=title_of(measure))
        axes.set_xlabel("Parameters (millions)")
    return figure, [
        f"Scores on {options.split} of variants whose parameters are counted; overall: "
        f"{paper.overall}. Front: no other variant with as many or fewer parameters has a mean as "
        "high.",
        points_note(shown),
        *inputs.absent,
    ]


def front(sizes: Mapping[str, float], means: Mapping[str, float]) -> list[str]:
    """Return the variants that score more than all with at most as many parameters, smallest first.

    Of equals, the first.
    """
    kept: list[str] = []
    for name in sorted(means, key=lambda name: (sizes[name], -means[name])):
        if not kept or means[name] > means[kept[-1]]:
            kept.append(name)
    return kept


def _round(axes: Axes, most: int) -> None:
    """Put at most so many round numbers beside each axis."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 5, 10]))


class Point(NamedTuple):
    """A score of a paper's variant twice, of a task or by a rule; `y` is on `split`."""

    paper: str
    measure: str
    split: str
    x: Interval
    y: Interval


Means = Mapping[Of, Interval]


def published_reproduced(options: PublishedReproduced, inputs: Inputs) -> Drawn:
    """Draw each published number, or dev score, against our score on the paper's split, or test.

    Markers are hollow, so that those that lie on others hide none; of published scores on test they
    are filled.
    """
    if options.against == "dev":
        points_of, axis_titles, none = _dev_and_test, ("dev", "test"), "no test labels"
        said, over = "Variants that were scored on test.", "seeds (Student t)"
    else:
        points_of, axis_titles, none = _published, ("published", "ours"), "no run yet"
        said = "Numbers of the papers' tables, where we have a score on the same split."
        over = "seeds for a single run, as in the papers (Student t)"
    points: list[Point] = []
    for about in inputs.papers:
        scores = read_scores(inputs.scores[about["paper"]], about["paper"])
        points += points_of(about, over_seeds(scores, about["overall_tasks"]))
    if not points:
        return style.nothing(none), []
    looks = {about["paper"]: style.look(n) for n, about in enumerate(inputs.papers)}
    titles = [title_of(measure) for measure in (*TASKS, "overall")]
    by_panel = {t: [p for p in points if title_of(p.measure) == t] for t in titles}
    by_panel = {title: of for title, of in by_panel.items() if of}
    figure, panels = style.panels(len(by_panel), 2.5)
    for axes, (title, shown) in zip(panels, by_panel.items(), strict=True):
        limits = style.ends([one for point in shown for one in (point.x, point.y)])
        axes.plot(limits, limits, **style.ZERO, label="equal scores")
        axes.set(xlim=limits, ylim=limits, title=f"{title}\nn = {len(shown)}")
        axes.set(xlabel=axis_titles[0], ylabel=axis_titles[1])
        _round(axes, 6)
        for paper, _, split, x, y in shown:
            on_test = split == "test"
            about = looks[paper] if on_test else looks[paper] | {"markerfacecolor": "none"}
            label = paper + ", on test" * on_test
            style.points(axes, [(x.mean, y)], about, label, xerr=style.bars([x]), markersize=4)
    return figure, [
        f"{said} Overall: a plain or normalised mean, by each paper's own rule.",
        points_note([point.y for point in points], over),
    ]


def _dev_and_test(about: Mapping[str, Any], means: Means) -> Iterator[Point]:
    """Yield the scores that a paper's variants have on both dev and test."""
    for of, test in means.items():
        dev = means.get(of._replace(split="dev"))
        if of.split == "test" and dev and of.measure in (about["rule"], *TASKS):
            yield Point(about["paper"], of.measure, "dev", dev, test)


def _published(about: Mapping[str, Any], means: Means) -> Iterator[Point]:
    """Yield the numbers of a paper's tables that we have, too, as those of single runs."""
    for row in (row for row in about["rows"] if row["table"]):
        names = {"overall": about["rule"], "other": row["other_task"]}
        for name, value in row["published"].items():
            of = Of(row["variant"], row["split"], names.get(name, name))
            if of in means and value is not None:
                ours = single_run(means[of])
                yield Point(about["paper"], of.measure, of.split, Interval(value), ours)


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
