"""The curves of a single run, for its page in MLflow: training loss and dev scores."""

from pathlib import Path

from minbert.figures import style
from minbert.figures.curves import Of, curve_of, draw_curve, epoch_axis, longest, read_history
from minbert.spec.task import TASKS


def draw_run(history: Path, title: str, rule: str, target: Path) -> None:
    """Draw the run of `history` (parquet) as PNG `target`; `rule` names its overall score.

    Losses are smoothed over half an epoch. A history without any row raises `UserError`.
    """
    run = read_history(history)
    losses = {of.task: of for of in run.rows if (of.split, of.metric) == ("train", "loss")}
    metrics = {name: task.metric for name, task in TASKS.items()} | {"overall": rule}
    scores = {task: Of("dev", task, metric) for task, metric in metrics.items()}
    with style.style():
        figure, panels = style.panels(2, 2.2)
        drawn = ((losses, "training loss", 0.5), (scores, "dev score", 0.0))
        for first, (axes, (found, label, window)) in enumerate(zip(panels, drawn, strict=True)):
            for task, of in found.items():
                name = TASKS[task].title if task in TASKS else task
                look = style.look(list(metrics).index(task))
                draw_curve(axes, curve_of([run], of), look, window, faint=False, label=name)
            if axes.lines:
                style.add_legend(axes)
            axes.set(xlabel="epoch", ylabel=label)
            epoch_axis(axes, longest([run]), first)
        figure.suptitle(style.shorten(title, 80))
        notes = ["Losses: running mean over half an epoch, with penalties and dropout."]
        style.add_footer(figure, notes, f"overall: {rule}")
        figure.savefig(target, format="png", dpi=150, metadata={"Software": None})
