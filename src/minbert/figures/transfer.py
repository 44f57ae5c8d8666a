"""From one task to another: what the first gives to the second, and what of it is forgotten."""

import numpy as np

from minbert.base.errors import UserError
from minbert.evaluate.seeds import Interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, mean_of
from minbert.figures.scored import CROSSED, PaperScores, gains
from minbert.spec.figures import Options
from minbert.spec.task import TASKS

Move = tuple[str, ...]
"""The first and the second task."""
Cells = dict[Move, tuple[str, float]]
"""What is written, and the difference that sets the colour."""


def transfer(_: Options, inputs: Inputs) -> Drawn | None:
    """Draw the variants that start from a model of one task and train another, on dev.

    The models that they start from are among the variants, too. A cell has the score, its
    difference from the model that was trained on that task alone, with the interval of the claims,
    and the paper's difference. Only differences whose interval is on one side of 0 have a colour;
    equally dark ones are equally large.
    """
    moved, paper = _moved(inputs), PaperScores(inputs)
    if not (moved and paper.means):
        return None
    gained = gains(inputs, paper, moved.values())
    after: Cells = {}
    left: Cells = {}
    for (first, second), (name, alone) in moved.items():
        if one := paper.get(alone, second):
            after[second, second] = _cross(one) + f"{one.mean:.3f}\nalone", 0.0
        for task, cells in ((second, after), (first, left)):
            change, published = gained.get((name, alone, task), (None, None))
            if (score := paper.get(name, task)) and change:
                cells[first, second] = _cell(score, change, published)
    rows, columns = ([t for t in TASKS if t in of] for of in zip(*moved, strict=True))
    furthest = max((abs(shade) for _, shade in (*after.values(), *left.values())), default=0) or 1
    figure, panels = style.panels(2, 0.6 + 0.52 * len(rows))
    titles = (
        "Transfer: score on the second task",
        "Forgetting: score on the first task afterwards",
    )
    for axes, cells, title in zip(panels, (after, left), titles, strict=True):
        found = [[cells.get((row, column), ("", np.nan)) for column in columns] for row in rows]
        words = [[said for said, _ in row] for row in found]
        shades = np.array([[shade for _, shade in row] for row in found])
        down, across = ([TASKS[task].title for task in of] for of in (rows, columns))
        style.heat_map(axes, shades, words, down, across, (-furthest, furthest), "PuOr", size=6.5)
        axes.set(title=title, xlabel="second task")
    panels[0].set_ylabel("first task")
    seeds = mean_of(one.n for one in paper.means.values())
    over = "examples, not over seeds" if seeds == "1 seed" else "examples and seeds"
    return figure, [
        f"Each cell: dev score, {seeds}; its difference from the model trained on "
        "that task alone (first task = second task); the paper's difference. Hatched: no such run, "
        "or the model that it starts from is not among the figure's variants.",
        f"\u25b2 higher, \u25bc lower, the darker the more; neither: the interval includes 0. "
        f"{CROSSED}",
        f"\u00b1: half of the 95 % interval over {over} (the claims' bootstrap, not widened for "
        "their number).",
    ]


def _moved(inputs: Inputs) -> dict[Move, tuple[str, str]]:
    """Return a variant and the one whose model it starts from, by their tasks.

    Unless each variant's last stage, if it starts from another, trains one task and only scores one
    more, and no other does the same, raises `UserError`.
    """
    found: dict[Move, tuple[str, str]] = {}
    lasts = {name: inputs.about["stages"][name][-1] for name in inputs.variants}
    for name, last in lasts.items():
        if not last["start"]:
            continue
        trained = {task: of["trained"] for task, of in last["spec"]["tasks"].items()}
        tasks = tuple(sorted(trained, key=trained.__getitem__))
        if tasks in found or [trained[task] for task in tasks] != [False, True]:
            raise UserError(
                f"figure 'transfer': variant '{name}', of {' and '.join(tasks)}, starts from "
                f"{last['start']}; expected one task to train, one only to score "
                "(`evaluate_only`), and no other variant of the same two; leave it out"
            )
        found[tasks] = name, str(last["start"]).partition("/")[0]
    return found


def _cross(one: Interval) -> str:
    return "\u00d7" * (one.learned is False)


def _cell(score: Interval, change: Interval, published: Interval | None) -> tuple[str, float]:
    """Return the cell of a score, our change and the paper's."""
    low, high = change.low or 0.0, change.high or 0.0
    certain = low * high > 0
    sign = ("\u25b2" if change.mean > 0 else "\u25bc") * certain
    words = (
        f"{_cross(change)}{score.mean:.3f}\n{sign}{change.mean:+.3f} \u00b1{high - change.mean:.3f}"
    )
    words += f"\npaper {published.mean:+.3f}" if published else ""
    return words.replace("-", "\u2212"), change.mean * certain
