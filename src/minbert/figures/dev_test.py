"""Scores on dev against scores on test, over all papers."""

from minbert.evaluate.means import over_seeds
from minbert.figures import scored, style
from minbert.figures.inputs import Drawn, FigureSpec, Inputs
from minbert.figures.scatter import OVERALL_RULES, Point, scatter
from minbert.spec.task import TASKS


class Spec(FigureSpec):
    """The test score of each tested variant against its dev score; there are no options."""

    def plot(self, inputs: Inputs) -> Drawn:
        points: list[Point] = []
        rules = inputs.facts["rules"]
        for paper, rule in rules.items():
            scores = scored.read_scores(inputs.scores[paper], paper)
            found = over_seeds(scores, inputs.overall_tasks(paper))
            flat = scored.unlearned(scores, inputs.overall_tasks(paper))
            for of, test in found.items():
                dev = found.get(of._replace(split="dev"))
                shown = "overall" if of.measure == rule else of.measure
                if of.split == "test" and dev is not None and shown in ("overall", *TASKS):
                    crossed = not flat.isdisjoint([of, of._replace(split="dev")])
                    points.append(Point(paper, shown, dev, test, crossed=crossed))
        if not points:
            return style.nothing("no test labels"), ["No variant was scored on labelled test data."]
        notes = [f"Each variant that was scored on test. {OVERALL_RULES}"]
        notes += [scored.CROSSED] if any(point.crossed for point in points) else []
        notes += [" ".join([*scored.seeds_note(point.y for point in points), scored.CUT])]
        return scatter(points, list(rules), "dev", "test"), notes
