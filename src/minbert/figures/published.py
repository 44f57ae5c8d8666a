"""The papers' figures against ours, over all papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.against import MEASURES, Point, scatter
from minbert.figures.inputs import Inputs
from minbert.figures.scored import Of, over_seeds, read_scores, seeds_note
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS
from minbert.scoring import OVERALL_TASKS


class Spec(FigureSpec):
    """It has no options."""


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw each published figure against the mean of our seeds, with the interval over them.

    The overall score is by each paper's own rule; a row is scored on the split that the paper
    scored it on.
    """
    render("published-reproduced", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    points: list[Point] = []
    without: Counter[str] = Counter()
    for paper, rule in inputs.facts["rules"].items():
        found = over_seeds(read_scores(inputs.scores[paper], paper))
        for row in inputs.facts["published"]:
            if row["paper"] == paper:
                made = list(_points(row, rule, found))
                points += made
                without[paper] += not made
    notes = [f"{len(points)} figures of the papers' tables. Overall: by each paper's own rule."]
    notes += seeds_note(point.y.n for point in points)
    absent = [f"{paper} {count}" for paper, count in without.items() if count]
    notes += [f"Rows without our score: {', '.join(absent)}."] if absent else []
    if not points:
        return style.nothing(spec.title), notes
    papers = list(inputs.facts["rules"])
    return scatter(points, papers, spec.title, "published", "ours"), notes


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
