"""From one task to another: what the first gives to the second, and what of it is forgotten."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from minbert.base.errors import UserError
from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, listed, mean_of
from minbert.figures.scored import CROSSED, PaperScores, gains, title_of
from minbert.spec.figures import Options
from minbert.spec.task import TASKS


class Cell(NamedTuple):
    """The text of a cell, and what sets its colour: the difference from the score of the model
    trained on that task alone; 0 if its 95 % interval includes 0."""

    words: str
    shade: float = 0.0


Cells = dict[tuple[str, str], Cell | None]  # by first and second task


def transfer(_: Options, inputs: Inputs) -> Drawn:
    """Draw the variants that start from a model of one task and train another, on dev.

    The models that they start from are among the variants, too. A cell has the score, its
    difference from the model that was trained on that task alone, with the interval of the claims,
    and the paper's difference. Only differences whose interval is on one side of 0 have a colour;
    equally dark ones are equally large.
    """
    stages = inputs.about["stages"]
    found = {n: _moved(n, stages[n]) for n in inputs.variants if stages[n][-1]["start"]}
    paper = PaperScores(inputs)
    if not found:
        return style.nothing("no variant starts from the model of another"), inputs.absent
    if not paper.means:
        return style.nothing(), inputs.absent
    gained = gains(inputs, paper, {(name, alone) for name, (*_, alone) in found.items()})
    after: Cells = {}
    left: Cells = {}
    same: Cells = {}
    for name, (first, second, alone) in found.items():
        if (first, second) in after:
            raise UserError(
                f"figure 'transfer': variant '{name}' is not the only one that goes from {first} "
                f"to {second}, and a cell has room for one; leave one out"
            )
        for task, cells in ((second, after), (first, left)):
            change, said = gained.get((name, alone, task), (None, None))
            score = paper.get(name, task)
            cells[first, second] = change and score and _cell(score, change, said)
        if score := paper.get(alone, second):
            mark = "\u00d7" * (score.learned is False)
            same[second, second] = Cell(f"{mark}{score.mean:.3f}\nalone")
    rows, columns = ([t for t in TASKS if any(t == of[n] for of in after)] for n in (0, 1))
    every = [cell for cell in (*after.values(), *left.values()) if cell]
    furthest = max((abs(cell.shade) for cell in every), default=0.0) or 1.0
    figure, panels = style.panels(2, 0.6 + 0.52 * len(rows))
    _matrix(panels[0], after | same, rows, columns, furthest)
    panels[0].set(title="Transfer: score on the second task", ylabel="first task")
    _matrix(panels[1], left, rows, columns, furthest)
    panels[1].set_title("Forgetting: score on the first task afterwards")
    seeds = mean_of(one.n for one in paper.means.values())
    over = "over examples and seeds" if seeds != "1 seed" else "over examples, not over seeds"
    missing = sorted({alone for *_, alone in found.values()} - inputs.variants.keys())
    titles = ", ".join(title_of(task) for task in TASKS if task in {*rows, *columns})
    return figure, [
        f"Each cell: dev score ({titles}); its difference from the model "
        "trained on that task alone (first task = second task); the paper's difference. "
        "Hatched: no such run.",
        "\u25b2 higher, \u25bc lower, the darker the more; neither: the interval includes 0.",
        CROSSED * any("\u00d7" in cell.words for cell in every),
        f"{seeds[0].upper()}{seeds[1:]}; \u00b1: half of the 95 % interval {over} (the claims' "
        "bootstrap, not widened for their number).",
        f"Not among the figure's variants: {listed(missing)}." * bool(missing),
        *inputs.absent,
    ]


def _moved(variant: str, stages: Sequence[Mapping[str, Any]]) -> tuple[str, str, str]:
    """Return a variant's first task, its second, and the variant whose model it starts from.

    Unless its last resolved stage, which has a start, has one trained task and one that is only
    scored, raises `UserError`.
    """
    last = stages[-1]
    tasks = last["spec"]["tasks"]
    trained = [name for name, task in tasks.items() if task["trained"]]
    scored = [name for name, task in tasks.items() if not task["trained"]]
    if len(trained) != 1 or len(scored) != 1:
        raise UserError(
            f"figure 'transfer': variant '{variant}' trains {' and '.join(trained)} and also "
            f"scores {' and '.join(scored) or 'nothing'}, starting from {last['start']}; expected "
            "one task to train and one only to score (`evaluate_only`)"
        )
    return scored[0], trained[0], str(last["start"]).partition("/")[0]


def _cell(score: Interval, change: Interval, said: Interval | None) -> Cell:
    """Return the cell of a score, our change and the one `said` by the paper."""
    low, high = change.low or 0.0, change.high or 0.0
    mark = "\u00d7" * (change.learned is False)
    certain = low * high > 0
    sign = ("\u25b2" if change.mean > 0 else "\u25bc") * certain
    words = f"{mark}{score.mean:.3f}\n{sign}{_signed(change.mean)} \u00b1{high - change.mean:.3f}"
    words += f"\npaper {_signed(said.mean)}" if said else ""
    return Cell(words, change.mean * certain)


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "\u2212")


def _matrix(
    axes: Axes, cells: Cells, firsts: list[str], seconds: list[str], furthest: float
) -> None:
    """Draw the cells; `furthest` is the difference that is darkest."""
    found = [[cells.get((first, second)) for second in seconds] for first in firsts]
    shades = np.array([[cell.shade if cell else np.nan for cell in row] for row in found])
    words = [[cell.words if cell else "" for cell in row] for row in found]
    rows, columns = ([TASKS[task].title for task in tasks] for tasks in (firsts, seconds))
    style.heat_map(axes, shades, words, rows, columns, (-furthest, furthest), "PuOr", size=6.5)
    axes.set_xlabel("second task")
