"""A paper's variants from best to worst: overall score and each task, with intervals over seeds."""

from typing import Literal

from minbert.evaluate.reading import Of
from minbert.figures import scored, style
from minbert.figures.inputs import Drawn, FigureSpec, Inputs
from minbert.spec.task import TASKS


class Spec(FigureSpec):
    """All variants of one paper by their scores on `split`.

    Variants without an overall score come last, sorted by their mean over tasks.
    """

    split: Literal["dev", "test"] = "dev"

    def plot(self, inputs: Inputs) -> Drawn:
        paper = scored.paper_scores(inputs, self.variants, self.split)
        found = scored.over_seeds(paper.scores)

        def order(name: str) -> tuple[bool, float]:
            if (whole := found.get(Of(name, self.split, paper.rule))) is not None:
                return False, -whole.mean
            means = [
                found[of].mean for task in TASKS if (of := Of(name, self.split, task)) in found
            ]
            return True, -sum(means) / len(means)

        names = sorted((name for name in self.variants if paper.shown[name]), key=order)
        if not names:
            return style.nothing(), paper.absent
        labels = [self.variants[name] for name in names]
        figure, panels = scored.rows_of_panels(labels, len(paper.measures))
        for axes, measure in zip(panels, paper.measures, strict=True):
            scored.marks(axes, [found.get(Of(name, self.split, measure)) for name in names])
            axes.set_xlabel(scored.TITLES[measure].replace(" ", "\n", 1))
        said = f"Overall: {paper.rule} mean of SST, paraphrase and STS, on {self.split}."
        counts = (len(paper.shown[name]) for name in names)
        return figure, [said, *scored.seeds_note(counts), *paper.absent]
