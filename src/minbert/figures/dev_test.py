"""Scores on dev against scores on test, over all papers."""

from minbert.evaluate.reading import Of
from minbert.figures import style
from minbert.figures.inputs import Drawn, FigureSpec, Inputs
from minbert.figures.scored import Point, over_seeds, read_scores, scatter, seeds_note
from minbert.spec.protocol import OVERALL_TASKS


class Spec(FigureSpec):
    """The test score of each tested variant against its dev score; there are no options."""

    def plot(self, inputs: Inputs) -> Drawn:
        points: list[Point] = []
        rules = inputs.facts["rules"]
        for paper, rule in rules.items():
            names = {**{task: task for task in OVERALL_TASKS}, rule: "overall"}
            found = over_seeds(read_scores(inputs.scores[paper], paper))
            for (variant, split, measure), test in found.items():
                dev = found.get(Of(variant, "dev", measure))
                if split == "test" and dev is not None and measure in names:
                    points.append(Point(paper, names[measure], dev, test))
        if not points:
            return style.nothing("no test labels"), ["No variant was scored on labelled test data."]
        notes = ["Each variant that was scored on test. Overall: by each paper's own rule."]
        notes += seeds_note(point.y.n for point in points)
        return scatter(points, list(rules), "dev", "test"), notes
