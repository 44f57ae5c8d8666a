"""Scores as points: against parameters; published ones against ours; dev against test."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from minbert.evaluate.reading import Of
from minbert.evaluate.seeds import Interval, over_seeds
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs
from minbert.figures.scored import OVER, PaperScores, points_note, published, read_scores, title_of
from minbert.spec.figures import OfSplit, PublishedReproduced
from minbert.spec.task import TASKS

_OTHER: style.Look = {"color": "0.6", "marker": "o", "markersize": 2.5, "zorder": 2}


def score_parameters(options: OfSplit, inputs: Inputs) -> Drawn | None:
    """Draw all variants of one paper: overall score and each task on a split, against parameters.

    Variants on the front of any panel have a different look, the others are grey.
    """
    paper = PaperScores(inputs, options.split)
    counts = {row["variant"]: row["parameters"] for row in inputs.about["rows"]}
    sizes = {name: count / 1e6 for name, count in counts.items() if count}
    shown = [one for of, one in paper.means.items() if of.variant in sizes]
    if not shown:
        return None
    every = {m: {n: one for n in sizes if (one := paper.get(n, m))} for m in paper.measures}
    scores = {measure: found for measure, found in every.items() if found}
    fronts = {measure: front(sizes, found) for measure, found in scores.items()}
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
    ]


def front(sizes: Mapping[str, float], found: Mapping[str, Interval]) -> list[str]:
    """Return the variants that score more than all with at most as many parameters, smallest first.

    Of equals, the first.
    """
    kept: list[str] = []
    for name in sorted(found, key=lambda name: (sizes[name], -found[name].mean)):
        if not kept or found[name].mean > found[kept[-1]].mean:
            kept.append(name)
    return kept


def _round(axes: Axes, most: int) -> None:
    """Put at most so many round numbers beside each axis."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 5, 10]))


def published_reproduced(options: PublishedReproduced, inputs: Inputs) -> Drawn | None:
    """Draw each published number, or dev score, against our score on the paper's split, or test.

    Markers are hollow, so that those that lie on others hide none; of published scores on test they
    are filled.
    """
    points = [
        (about["paper"], *point)
        for about in inputs.papers
        for point in _points(options.against, inputs.scores[about["paper"]], about)
    ]
    if not points:
        return None
    said, over = "Variants that were scored on test.", OVER
    if options.against == "published":
        said = "Numbers of the papers' tables, where we have a score on the same split."
        over = "seeds for a single run, as in the papers (Student t)"
    looks = {about["paper"]: style.look(n) for n, about in enumerate(inputs.papers)}
    by_panel = {
        title_of(m): [p for p in points if title_of(p[1].measure) == title_of(m)]
        for m in (*TASKS, "overall")
    }
    by_panel = {title: of for title, of in by_panel.items() if of}
    figure, panels = style.panels(len(by_panel), 2.5)
    for axes, (title, shown) in zip(panels, by_panel.items(), strict=True):
        limits = style.ends(one for *_, x, y in shown for one in (x, y))
        axes.plot(limits, limits, **style.ZERO, label="equal scores")
        axes.set(xlim=limits, ylim=limits, title=f"{title}\nn = {len(shown)}")
        axes.set(xlabel=options.against, ylabel="test" if options.against == "dev" else "ours")
        _round(axes, 6)
        for paper, of, x, y in shown:
            look, label = looks[paper] | {"markerfacecolor": "none"}, paper
            if of.split == "test":
                look, label = looks[paper], f"{paper}, on test"
            style.points(axes, [(x.mean, y)], look, label, xerr=style.bars([x]), markersize=4)
    return figure, [
        f"{said} Overall: a plain or normalised mean, by each paper's own rule.",
        points_note([y for *_, y in points], over),
    ]


def _points(
    against: str, scores: Path, about: Mapping[str, Any]
) -> Iterator[tuple[Of, Interval, Interval]]:
    """Yield what a paper's points are of, and where they are."""
    means = over_seeds(read_scores(scores, about["paper"]), about["overall_tasks"])
    if against == "dev":
        for of, dev in means.items():
            test = means.get(of._replace(split="test"))
            if of.split == "dev" and test and of.measure in (about["rule"], *TASKS):
                yield of, dev, test
        return
    for of, value in published(about):
        if of in means:
            yield of, Interval(value), single_run(means[of])


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
