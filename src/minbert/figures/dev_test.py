"""Scores on dev against scores on test, over all papers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from minbert.figures import style
from minbert.figures.against import Point, scatter
from minbert.figures.inputs import Inputs
from minbert.figures.scored import Of, over_seeds, read_scores, seeds_note
from minbert.figures.spec import FigureSpec, render
from minbert.scoring import OVERALL_TASKS


class Spec(FigureSpec):
    """It has no options."""


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the test score of each tested variant against its dev score, which it was chosen by.

    Variants whose test labels are not public have no point.
    """
    render("dev-test", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    points: list[Point] = []
    for paper, rule in inputs.facts["rules"].items():
        found = over_seeds(read_scores(inputs.scores[paper], paper))
        for (variant, split, measure), test in found.items():
            dev = found.get(Of(variant, "dev", measure))
            if split == "test" and dev is not None:
                names = {**{task: task for task in OVERALL_TASKS}, rule: "overall"}
                if measure in names:
                    points.append(Point(paper, names[measure], dev, test))
    if not points:
        notes = ["No variant was scored on labelled test data."]
        return style.nothing(spec.title, "no test labels"), notes
    notes = ["Each variant that was scored on test. Overall: by each paper's own rule."]
    notes += seeds_note(point.y.n for point in points)
    papers = list(inputs.facts["rules"])
    return scatter(points, papers, spec.title, "dev", "test"), notes
