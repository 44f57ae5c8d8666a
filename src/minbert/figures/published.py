"""The papers' figures against ours, over all papers."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, FigureSpec, Inputs
from minbert.figures.scored import MEASURES, Point, over_seeds, read_scores, scatter, seeds_note
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS


class Spec(FigureSpec):
    """Each published figure against ours, on the paper's own split; there are no options."""

    def plot(self, inputs: Inputs) -> Drawn:
        points: list[Point] = []
        without: Counter[str] = Counter()
        rules = inputs.facts["rules"]
        for paper, rule in rules.items():
            found = over_seeds(read_scores(inputs.scores[paper], paper))
            for row in (row for row in inputs.facts["published"] if row["paper"] == paper):
                made = list(_points(row, rule, found))
                points += made
                without[paper] += not made
        notes = [f"{len(points)} figures of the papers' tables. Overall: by each paper's own rule."]
        notes += seeds_note(point.y.n for point in points)
        absent = [f"{paper} {count}" for paper, count in without.items() if count]
        notes += [f"Rows without our score: {', '.join(absent)}."] if absent else []
        if not points:
            return style.nothing(), notes
        return scatter(points, list(rules), "published", "ours"), notes


def _points(row: Mapping[str, Any], rule: str, found: Mapping[Of, Interval]) -> Iterator[Point]:
    """Yield the figures of a published row that we have, too."""
    ours = {
        of.measure: mean
        for of, mean in found.items()
        if (of.variant, of.split) == (row["variant"], row["split"])
    }
    others = [task for task in ours if task in TASKS and task not in OVERALL_TASKS]
    other = row["other_task"] or (others[0] if len(others) == 1 else None)
    names = {**{task: task for task in OVERALL_TASKS}, "other": other, "overall": rule}
    for measure in MEASURES:
        value, name = row["figures"][measure], names[measure]
        if value is not None and name in ours:
            x = Interval(value, None, None, 1)
            yield Point(row["paper"], measure, x, ours[name], row["split"] == "test")
