"""From one task to another: what the first gives to the second, and what of it is forgotten."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from minbert.base.errors import UserError
from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec
from minbert.figures.scored import Scores, paper_scores
from minbert.spec.task import TASKS

Cell = tuple[float, str]
"""A mean difference from the score of the model trained on that task alone, and the text."""

Cells = dict[tuple[str, str], Cell | None]  # by first and second task


class Spec(VariantsSpec):
    """The variants that start from a model of one task and train another, on dev.

    A cell has the score, and its difference from the model that was trained on that task alone,
    with its 95 % interval if there are several seeds.
    """

    def plot(self, inputs: Inputs) -> Drawn:
        found = {name: transfer(name, inputs.facts["stages"][name]) for name in self.variants}
        paper = paper_scores(inputs, self.variants)
        count = len(set().union(*paper.shown.values()))
        if not count:
            return style.nothing(), paper.absent
        gains: Cells = {}
        losses: Cells = {}
        same: Cells = {}
        for name, (first, second, alone) in found.items():
            gains[first, second] = _cell(paper.scores, name, alone, second)
            losses[first, second] = _cell(paper.scores, name, alone, first)
            if scored := paper.scores.get(Of(alone, "dev", second)):
                words = f"{np.mean(list(scored.values())):.3f}\nalone"
                same[second, second] = (0.0, words)
        every = [abs(cell[0]) for cell in (*gains.values(), *losses.values()) if cell]
        furthest = max(every, default=0.0) or 1.0
        rows = [task for task in TASKS if any(task == first for first, _ in gains)]
        columns = [task for task in TASKS if any(task == second for _, second in gains)]
        figure = style.new_figure(style.WIDE, 1.0 + 0.46 * len(rows))
        left, right = (figure.add_subplot(1, 2, place) for place in (1, 2))
        _matrix(left, gains | same, rows, columns, furthest)
        left.set(title="Transfer: score on the second task", ylabel="first task")
        _matrix(right, losses, rows, columns, furthest)
        right.set_title("Forgetting: score on the first task afterwards")
        over = f"Mean of {count} seeds; \u00b1: half of the 95 % interval over seeds (Student t)."
        return figure, [
            "Each cell: dev score (accuracy; Pearson r for STS) and, below it, the difference from "
            "the model trained on that task alone, which sets the colour: orange is lower, violet "
            "higher. First task = second task: that model. Hatched: no such run.",
            over if count > 1 else "1 seed, so no interval over seeds.",
            *paper.absent,
        ]


def transfer(variant: str, stages: Sequence[Mapping[str, Any]]) -> tuple[str, str, str]:
    """Return a variant's first task, its second, and the variant whose model it starts from.

    Unless its last resolved stage has one trained task, one that is only scored, and a start,
    raises `UserError`.
    """
    last = stages[-1]
    tasks = last["spec"]["tasks"]
    trained = [name for name, task in tasks.items() if task["trained"]]
    scored = [name for name, task in tasks.items() if not task["trained"]]
    if len(trained) != 1 or len(scored) != 1 or not last["start"]:
        raise UserError(
            f"figure 'transfer': variant '{variant}' trains {' and '.join(trained)} and also "
            f"scores {' and '.join(scored) or 'nothing'}, starting from {last['start']}; expected "
            "one task to train, one only to score (`also_score`), and a stage to start from"
        )
    return scored[0], trained[0], str(last["start"]).partition("/")[0]


def _cell(scores: Scores, variant: str, alone: str, task: str) -> Cell | None:
    after, before = (scores.get(Of(name, "dev", task), {}) for name in (variant, alone))
    both = sorted(set(after) & set(before))
    if not both:
        return None
    change = interval([after[seed] - before[seed] for seed in both])
    half = "" if change.high is None else f" \u00b1{change.high - change.mean:.3f}"
    signed = f"{change.mean:+.3f}".replace("-", "\u2212")
    return (change.mean, f"{np.mean([after[seed] for seed in both]):.3f}\n{signed}{half}")


def _matrix(axes: Axes, cells: Cells, firsts: list[str], seconds: list[str], most: float) -> None:
    grid = [[cells.get((first, second)) or (np.nan, "") for second in seconds] for first in firsts]
    values = np.array([[difference for difference, _ in row] for row in grid])
    words = [[said for _, said in row] for row in grid]
    rows, columns = ([TASKS[task].title for task in tasks] for tasks in (firsts, seconds))
    style.heat_map(axes, values, words, rows, columns, (-most, most), "PuOr", size=6.5)
    axes.set_xlabel("second task")
