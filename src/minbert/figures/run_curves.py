"""Loss and score of every run on train and dev, in small panels (minbert-downstream, A)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from pydantic import Field

from minbert.common.errors import UserError, nearest
from minbert.figures import style
from minbert.figures.curves import (
    Curve,
    History,
    Of,
    curve_of,
    draw_curve,
    epoch_axis,
    lines_notes,
    longest,
    read_histories,
)
from minbert.figures.grids import entry, panel_grid
from minbert.figures.inputs import Inputs, absent_notes, present
from minbert.figures.scored import TITLES
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS
from minbert.scoring import OVERALL_TASKS

DEV, TRAIN = style.LOOKS[0], style.LOOKS[1]
_CHANCE = style.Look("0.35", (0, (1, 1.2)), "")
_ACROSS = 3  # runs in a row, two panels each
_SMALL = 6


class Spec(FigureSpec):
    """`chance` is what guessing scores, by task and `overall`."""

    variants: dict[str, str] = Field(min_length=1)
    chance: dict[str, float] = Field(default_factory=dict)


class Run(NamedTuple):
    """What is drawn of a variant: its seeds' histories, the task that its score is of."""

    label: str
    histories: list[History]
    task: str
    metric: str
    loss: tuple[Curve | None, Curve | None]
    score: tuple[Curve | None, Curve | None]


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw loss and score of the last stage of each variant of `spec` (see `Spec`)."""
    render("run-curves", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    found, notes = read_runs(spec, inputs)
    if not found:
        return style.nothing(spec.title), notes
    runs = list(found.values())
    across = min(_ACROSS, len(runs))
    figure, grid = panel_grid(-(-len(runs) // across), 2 * across, 1.1, entries(spec, runs))
    for number, run in enumerate(runs):
        row, column = divmod(number, across)
        loss, score = grid[row][2 * column : 2 * column + 2]
        draw_loss(loss, run)
        draw_score(score, run, spec.chance)
        loss.set_title(style.shorten(f"{run.label}: loss", 26), fontsize=_SMALL)
        score.set_title(score_name(run), fontsize=_SMALL)
    share_height([grid[n // across][2 * (n % across) + 1] for n in range(len(runs))])
    for axes in (axes for row in grid for axes in row if not axes.has_data()):
        axes.set_axis_off()
    for axes in grid[-1]:
        axes.set_xlabel("Epoch", fontsize=_SMALL)
    figure.suptitle(spec.title)
    return figure, [*explained(spec, runs), *notes]


def read_runs(spec: Spec, inputs: Inputs) -> tuple[dict[str, Run], list[str]]:
    """Return the runs of the variants that have some, and the notes that name the absent ones."""
    for name in spec.chance:
        if name not in (*TASKS, "overall"):
            known = (*TASKS, "overall")
            raise UserError(
                f"figure '{spec.title}', key 'chance': unknown task '{name}'; known: "
                f"{', '.join(known)}.{nearest(name, known)}"
            )
    there = {name: present(inputs.histories.get(name, {})) for name in spec.variants}
    notes = absent_notes(spec.variants, there, inputs.histories, inputs.failed)
    (rule,) = inputs.facts["rules"].values()
    found = {}
    for name, label in spec.variants.items():
        if there[name]:
            stage = inputs.facts["stages"][name][-1]["spec"]
            found[name] = _run(label, read_histories(there[name]), stage, rule)
    return found, notes


def _run(label: str, histories: list[History], spec: Mapping[str, Any], rule: str) -> Run:
    tasks = {name: of["weight"] for name, of in spec["tasks"].items() if of["trained"]}
    whole = set(OVERALL_TASKS) <= set(tasks)
    task, metric = ("overall", rule) if whole else _first(tasks)
    loss = "overall" if len(tasks) > 1 else task
    trained = curve_of(histories, Of("train", loss, "loss"))
    tested = _dev_loss(histories, tasks, spec["reduction"] == "mean")
    score = (
        curve_of(histories, Of("train", task, metric)),
        curve_of(histories, Of("dev", task, metric)),
    )
    return Run(label, histories, task, metric, (trained, tested), score)


def _first(tasks: Mapping[str, float]) -> tuple[str, str]:
    name = next(iter(tasks))
    return name, TASKS[name].metric


def _dev_loss(
    histories: Sequence[History], weights: Mapping[str, float], mean: bool
) -> Curve | None:
    """Return the tasks' dev losses added up as those of a training step are."""
    curves = {task: curve_of(histories, Of("dev", task, "loss")) for task in weights}
    there = {task: curve for task, curve in curves.items() if curve is not None}
    if len(there) < len(curves):
        return None
    first = next(iter(there.values()))
    parts = np.stack([weights[task] * curve.values for task, curve in there.items()])
    return Curve(first.epochs, parts.mean(axis=0) if mean else parts.sum(axis=0))


def entries(spec: Spec, runs: Sequence[Run]) -> list[Line2D]:
    """Return the legend's entries: train, dev and, where a run has a line for it, chance."""
    made = [entry("train", TRAIN), entry("dev", DEV)]
    if any(run.task in spec.chance for run in runs):
        made.append(entry("random chance", _CHANCE))
    return made


def draw_loss(axes: Axes, run: Run) -> None:
    """Draw the losses; training's is smoothed over half an epoch."""
    _draw(axes, run, run.loss, 0.5)


def draw_score(axes: Axes, run: Run, chance: Mapping[str, float]) -> None:
    """Draw the scores, and the line of random chance."""
    _draw(axes, run, run.score, 0.0)
    if run.task in chance:
        axes.axhline(chance[run.task], color=_CHANCE.color, linestyle=_CHANCE.linestyle, lw=0.9)


def _draw(axes: Axes, run: Run, curves: tuple[Curve | None, Curve | None], smooth: float) -> None:
    for curve, look, window in zip(curves, (TRAIN, DEV), (smooth, 0.0), strict=True):
        if curve is not None:
            draw_curve(axes, curve, "", look, window, faint=False)
    for line in axes.lines:
        line.set(markersize=2.2, linewidth=1.0)
    epoch_axis(axes, longest(run.histories))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], nbins=3))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.tick_params(labelsize=_SMALL - 0.5, pad=1.5)


def score_name(run: Run) -> str:
    """Return what the score of a run is, in a word or two."""
    return "overall score" if run.task == "overall" else TITLES[run.task]


def share_height(panels: Sequence[Axes]) -> None:
    """Give panels one scale, so that they can be compared."""
    ends = [axes.get_ylim() for axes in panels if axes.has_data()]
    for axes in panels:
        axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))


def explained(spec: Spec, runs: Sequence[Run]) -> list[str]:
    """Return the notes on losses, scores and chance."""
    rules = sorted({run.metric for run in runs if run.task == "overall"})
    notes = []
    if rules:
        notes.append(f"Overall: {rules[0]} mean of SST, paraphrase and STS.")
    notes.append(
        "Loss: that of a step, the tasks' together; on train the running mean over half an epoch, "
        "penalties and dropout included."
    )
    if all(run.score[0] is None for run in runs):
        notes.append("These runs recorded no scores on train.")
    else:
        notes.append("Scores on train are those of the batches while they trained.")
    used = {run.task for run in runs} & set(spec.chance)
    if used:
        said = ", ".join(
            f"{'overall' if task == 'overall' else TASKS[task].title} {spec.chance[task]:g}"
            for task in (*TASKS, "overall")
            if task in used
        )
        notes.append(f"Random chance: {said}.")
    return [*notes, lines_notes(len(run.histories) for run in runs)]
