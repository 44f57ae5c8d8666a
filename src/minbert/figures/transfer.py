"""From one task to another: what the first gives to the second, and what of it is forgotten."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from minbert.base.errors import UserError
from minbert.evaluate.reading import METRIC_TITLES, Of, Scores
from minbert.evaluate.statistics import interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec
from minbert.figures.scored import CROSSED, mean_over, paper_scores, unlearned
from minbert.spec.task import TASKS


class Cell(NamedTuple):
    """A mean difference from the score of the model trained on that task alone, and the text.

    `metric` is what it is a difference of; `certain`: its 95 % interval is on one side of 0.
    """

    difference: float
    words: str
    metric: str
    certain: bool = False


Cells = dict[tuple[str, str], Cell | None]  # by first and second task


class Spec(VariantsSpec):
    """The variants that start from a model of one task and train another, on dev.

    A cell has the score, and its difference from the model that was trained on that task alone,
    with its 95 % interval. Only differences whose interval is on one side of 0 have a colour, on a
    scale of each metric's own.
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
                mark = _mark(paper.scores, [alone], second)
                words = f"{mark}{mean_over(scored).mean:.3f}\nalone"
                same[second, second] = Cell(0.0, words, TASKS[second].metric)
        every = [cell for cell in (*gains.values(), *losses.values()) if cell]
        furthest: dict[str, float] = {}
        for cell in every:
            furthest[cell.metric] = max(furthest.get(cell.metric, 0.0), abs(cell.difference))
        rows = [task for task in TASKS if any(task == first for first, _ in gains)]
        columns = [task for task in TASKS if any(task == second for _, second in gains)]
        figure = style.new_figure(style.wide(), 1.0 + 0.46 * len(rows))
        left, right = (figure.add_subplot(1, 2, place) for place in (1, 2))
        _matrix(left, gains | same, rows, columns, furthest)
        left.set(title="Transfer: score on the second task", ylabel="first task")
        _matrix(right, losses, rows, columns, furthest)
        right.set_title("Forgetting: score on the first task afterwards")
        half = "\u00b1: half of the 95 % interval"
        over = f"Mean of {count} seeds; {half} over seeds (Student t)."
        one = f"1 seed; {half} over examples, not over seeds, as if runs were independent."
        strongest = [f"{METRIC_TITLES[name]} {most:.3f}" for name, most in furthest.items()]
        crossed = any("\u00d7" in cell.words for cell in every)
        return figure, [
            "Each cell: dev score (accuracy; Pearson r for STS) and, below it, the difference from "
            "the model trained on that task alone. First task = second task: that model. Hatched: "
            "no such run.",
            "Colour: orange is lower, violet higher, none if the interval includes 0. Strongest: "
            f"{', '.join(strongest)}.",
            *([CROSSED] if crossed else []),
            over if count > 1 else one,
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
    errors = [after[both[0]].error, before[both[0]].error]
    error = None if None in errors else float(np.linalg.norm(np.array(errors, dtype=float)))
    change = interval([after[seed].value - before[seed].value for seed in both], error)
    half = "" if change.high is None else f" \u00b1{change.high - change.mean:.3f}"
    signed = f"{change.mean:+.3f}".replace("-", "\u2212")
    certain = change.low is not None and change.high is not None and change.low * change.high > 0
    mean = np.mean([after[seed].value for seed in both])
    words = f"{_mark(scores, [variant, alone], task)}{mean:.3f}\n{signed}{half}"
    return Cell(change.mean, words, TASKS[task].metric, certain)


def _mark(scores: Scores, variants: Sequence[str], task: str) -> str:
    """Return a cross if one of the variants is not above the floor of `task`."""
    flat = unlearned({of: seeds for of, seeds in scores.items() if of.measure == task})
    return "\u00d7" if any(Of(name, "dev", task) in flat for name in variants) else ""


def _matrix(
    axes: Axes,
    cells: Cells,
    firsts: list[str],
    seconds: list[str],
    furthest: Mapping[str, float],
) -> None:
    found = [[cells.get((first, second)) for second in seconds] for first in firsts]
    values = np.array([[_shade(cell, furthest) for cell in row] for row in found])
    words = [[cell.words if cell else "" for cell in row] for row in found]
    rows, columns = ([TASKS[task].title for task in tasks] for tasks in (firsts, seconds))
    style.heat_map(axes, values, words, rows, columns, (-1, 1), "PuOr", size=6.5)
    axes.set_xlabel("second task")


def _shade(cell: Cell | None, furthest: Mapping[str, float]) -> float:
    """Return what sets a cell's colour: a certain difference as a share of its metric's largest."""
    if cell is None:
        return float("nan")
    return cell.difference / furthest[cell.metric] if cell.certain else 0.0
