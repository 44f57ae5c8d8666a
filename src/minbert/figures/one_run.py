"""The curves of a single run, for its page in MLflow: training loss and dev scores."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from minbert.figures import style
from minbert.figures.curves import (
    Curve,
    Of,
    curve_of,
    draw_curve,
    epoch_axis,
    longest,
    read_history,
)
from minbert.grid.tasks import TASKS

_DPI = 150


def draw_run(history: Path, title: str, rule: str, target: Path) -> None:
    """Draw the run of `history` (parquet) as PNG `target`; `rule` names its overall score.

    Losses are smoothed over half an epoch. A history without any row raises `UserError`.
    """
    run = read_history(history)
    curves = {of: curve for of in run.rows if (curve := curve_of([run], of)) is not None}
    wanted = {task: TASKS[task].metric for task in TASKS} | {"overall": rule}
    losses = {
        of.task: curve for of, curve in curves.items() if (of.split, of.metric) == ("train", "loss")
    }
    dev = {task: Of("dev", task, metric) for task, metric in wanted.items()}
    scores = {task: curves[of] for task, of in dev.items() if of in curves}
    with style.style():
        figure, (left, right) = style.panels(2, 2.2)
        for axes, found, label, window in (
            (left, losses, "training loss", 0.5),
            (right, scores, "dev score", 0.0),
        ):
            _panel(axes, found, window)
            axes.set_xlabel("epoch")
            axes.set_ylabel(label)
            epoch_axis(axes, longest([run]))
        figure.suptitle(style.shorten(title, 80))
        notes = ["Losses: running mean over half an epoch, penalties and dropout included."]
        style.add_footer(figure, notes, f"overall: {rule}")
        figure.savefig(target, format="png", dpi=_DPI, metadata={"Software": None})


def _panel(axes: Axes, found: dict[str, Curve], window: float) -> None:
    for task, curve in found.items():
        index = [*TASKS, "overall"].index(task)
        name = TASKS[task].title if task in TASKS else task
        draw_curve(axes, curve, name, style.look(index), window, faint=False)
    if found:
        style.add_legend(axes)
