"""The papers' numbers against ours, over all papers."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from minbert.evaluate.means import over_seeds
from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import Interval
from minbert.figures import scored, style
from minbert.figures.inputs import Drawn, FigureSpec, Inputs, mean_of
from minbert.figures.scatter import OVERALL_RULES, Point, scatter
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS


class Spec(FigureSpec):
    """Each published number against ours, on the paper's own split; there are no options."""

    def plot(self, inputs: Inputs) -> Drawn:
        points: list[Point] = []
        without: Counter[str] = Counter()
        rules = inputs.facts["rules"]
        for paper, rule in rules.items():
            scores = scored.read_scores(inputs.scores[paper], paper)
            means = over_seeds(scores, inputs.overall_tasks(paper))
            flat = scored.unlearned(scores, inputs.overall_tasks(paper))
            on_dev = {of.variant for of in scores if of.split == "dev"}
            for row in (row for row in inputs.facts["published"] if row["paper"] == paper):
                made = list(_points(row, rule, means, flat))
                points += made
                unlabelled = row["split"] == "test" and row["variant"] in on_dev
                why = "on test, without labels" if unlabelled else "without our score"
                without[why] += not made
        absent = [f"{n} row{'s' * (n != 1)} {why}" for why, n in without.items() if n]
        notes = [f"Not shown: {'; '.join(absent)}."] if absent else []
        if not points:
            return style.nothing(), notes
        about = f"{len(points)} numbers of the papers' tables. {OVERALL_RULES}"
        crossed = [scored.CROSSED] if any(point.crossed for point in points) else []
        ours = _ours_note([point.y for point in points])
        return scatter(points, list(rules), "published", "ours"), [about, *crossed, ours, *notes]


def single_run(of_mean: Interval) -> Interval:
    """Return a mean over n seeds with the 95 % interval of one more run, as a published number is.

    mean +- t * s * sqrt(1 + 1 / n), which is sqrt(n + 1) times as wide as the mean's own. None if
    there is one run, which says nothing of others.
    """
    mean, low, high, n, _ = of_mean
    if n == 1 or low is None or high is None:
        return Interval(mean, None, None, n)
    wider = (n + 1) ** 0.5
    return Interval(mean, mean - wider * (mean - low), mean + wider * (high - mean), n)


def _ours_note(ours: Sequence[Interval]) -> str:
    seeds = mean_of(one.n for one in ours)
    if all(one.n == 1 for one in ours):
        return f"Ours: {seeds}, so no intervals."
    said = "95 % interval for a single run, as in the papers (Student t)"
    return f"Ours: {seeds}; bars: {said}. {scored.CUT}"


def _points(
    row: Mapping[str, Any], rule: str, means: Mapping[Of, Interval], flat: Container[Of]
) -> Iterator[Point]:
    """Yield the numbers of a published row that we have, too."""
    ours = {of.measure: of for of in means if of[:2] == (row["variant"], row["split"])}
    others = [task for task in ours if task in TASKS and task not in OVERALL_TASKS]
    other = row["other_task"] or (others[0] if len(others) == 1 else None)
    names = {**{task: task for task in OVERALL_TASKS}, "other": other, "overall": rule}
    for measure, task in names.items():
        value, of = row["figures"][measure], ours.get(task or "")
        if value is not None and of is not None:
            x = Interval(value, None, None, 1)
            y = single_run(means[of])
            shown = "overall" if measure == "overall" else of.measure
            yield Point(row["paper"], shown, x, y, row["split"] == "test", of in flat)
