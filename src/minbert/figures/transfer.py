"""From one task to another: what the first gives to the second, and what of it is forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from minbert.common.errors import UserError
from minbert.evaluate.statistics import interval
from minbert.figures import style
from minbert.figures.heat import heat_map
from minbert.figures.inputs import Inputs, absent_notes
from minbert.figures.scored import TITLES, Of, Scores, read_scores, seeds_shown
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS

_COLORS = "PuOr"


class Spec(FigureSpec):
    """The variants that start from a model of one task and train another."""

    variants: dict[str, str] = Field(min_length=1)


class Transfer(NamedTuple):
    """A variant that trains `second` from what variant `alone` learnt of `first`."""

    variant: str
    first: str
    second: str
    alone: str


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the matrices of transfer and forgetting of `spec` from the paper's dev scores.

    A cell has the score, and its difference from the model that was trained on that task alone.
    Where the scores are of several seeds, the difference has its 95 % interval over seeds.
    """
    render("transfer", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    ((paper, path),) = inputs.scores.items()
    scores = read_scores(path, paper)
    found = [transfer(name, inputs.facts["stages"][name]) for name in spec.variants]
    shown = {name: seeds_shown(scores, name, "dev") for name in spec.variants}
    seeds = set().union(*shown.values())
    notes = absent_notes(spec.variants, shown, dict.fromkeys(spec.variants, seeds), inputs.failed)
    if not seeds:
        return style.nothing(spec.title), notes
    firsts = [task for task in TASKS if any(of.first == task for of in found)]
    seconds = [task for task in TASKS if any(of.second == task for of in found)]
    figure = style.new_figure(style.WIDE, 1.0 + 0.46 * len(firsts))
    left, right = (figure.add_subplot(1, 2, place) for place in (1, 2))
    gains = {(of.first, of.second): _gain(scores, of, of.second) for of in found}
    losses = {(of.first, of.second): _gain(scores, of, of.first) for of in found}
    furthest = max(
        (abs(one.difference) for one in (*gains.values(), *losses.values()) if one), default=0.0
    )
    alone = {of.second: _alone(scores, of.alone, of.second) for of in found}
    _matrix(left, gains, firsts, seconds, alone, furthest)
    left.set(title="Transfer: the score of the second task", ylabel="first task")
    _matrix(right, losses, firsts, seconds, {}, furthest)
    right.set_title("Forgetting: the score of the first task, then")
    for axes in (left, right):
        axes.set_xlabel("second task")
    figure.suptitle(spec.title)
    said = (
        "A cell: dev score (accuracy, or Pearson r of STS); below, its difference from the model "
        "of that task alone, which is the colour: orange lower, violet higher. Where both tasks "
        "are one: that model. Hatched: no such run."
    )
    count = len(seeds)
    over = f"Mean of {count} seeds; \u00b1: half of the 95 % interval over seeds (Student t)."
    return figure, [said, over if count > 1 else "1 seed, so no interval over seeds.", *notes]


def transfer(variant: str, stages: list[Mapping[str, Any]]) -> Transfer:
    """Return what a variant transfers, by the last of its resolved stages.

    Another shape than one trained task, one that is only scored, and a start raises `UserError`.
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
    return Transfer(variant, scored[0], trained[0], str(last["start"]).partition("/")[0])


class Gain(NamedTuple):
    """A mean score, its mean difference from that of the model alone, half of its interval."""

    score: float
    difference: float
    half: float | None


def _gain(scores: Scores, of: Transfer, task: str) -> Gain | None:
    after = scores.get(Of(of.variant, "dev", task), {})
    alone = scores.get(Of(of.alone, "dev", task), {})
    both = sorted(set(after) & set(alone))
    if not both:
        return None
    change = interval([after[seed] - alone[seed] for seed in both])
    half = None if change.high is None else change.high - change.mean
    return Gain(float(np.mean([after[seed] for seed in both])), change.mean, half)


def _alone(scores: Scores, variant: str, task: str) -> Gain | None:
    values = list(scores.get(Of(variant, "dev", task), {}).values())
    return Gain(float(np.mean(values)), 0.0, None) if values else None


def _matrix(
    axes: Axes,
    found: Mapping[tuple[str, str], Gain | None],
    firsts: list[str],
    seconds: list[str],
    alone: Mapping[str, Gain | None],
    furthest: float,
) -> None:
    values = np.full((len(firsts), len(seconds)), np.nan)
    words = [[""] * len(seconds) for _ in firsts]
    for row, first in enumerate(firsts):
        for column, second in enumerate(seconds):
            one = alone.get(second) if first == second else found.get((first, second))
            if one is not None:
                values[row, column] = one.difference
                words[row][column] = f"{one.score:.3f}\n{_change(one, first == second)}"
    rows, columns = ([TITLES[task].split()[0] for task in tasks] for tasks in (firsts, seconds))
    ends = furthest or 1.0
    heat_map(axes, values, words, rows, columns, (-ends, ends), _COLORS, size=6.5)


def _change(one: Gain, alone: bool) -> str:
    if alone:
        return "alone"
    signed = f"{one.difference:+.3f}".replace("-", "\u2212")
    return signed if one.half is None else f"{signed} \u00b1{one.half:.3f}"
