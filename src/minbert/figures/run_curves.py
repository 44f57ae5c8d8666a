"""Loss and score of every run on train and dev, in small panels (minbert-downstream, A)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from minbert.evaluate import reading
from minbert.figures import curves, style
from minbert.figures.curves import Of
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec
from minbert.figures.scored import (
    FLOOR,
    measure_of,
    overall_note,
    paper_floors,
    title_of,
    unlearned_note,
)
from minbert.spec.task import TASKS, overall_tasks

DEV, TRAIN = style.LOOKS[0], style.LOOKS[1]
_ACROSS = 3  # runs in a row, two panels each
_SMALL = 6.5
_LABEL = 22  # characters


class Run(NamedTuple):
    """What is drawn of a variant: `loss` and `score` (of `task`), each on train and dev."""

    label: str
    histories: list[curves.History]
    task: str
    metric: str
    loss: tuple[curves.Curve | None, curves.Curve | None]
    score: tuple[curves.Curve | None, curves.Curve | None]


class Spec(VariantsSpec):
    """Two panels per variant, of its last stage: loss and score; all scores have one scale."""

    def plot(self, inputs: Inputs) -> Drawn:
        found, notes = self.read_runs(inputs)
        if not found:
            return style.nothing(), notes
        runs = list(found.values())
        across = min(_ACROSS, len(runs))
        rows = -(-len(runs) // across)
        floors, flat = paper_floors(inputs)
        figure, grid = style.panel_grid(rows, 2 * across, 1.1, entries(floors))
        panels = [row[2 * n : 2 * n + 2] for row in grid for n in range(across)][: len(runs)]
        for (name, run), (loss, score) in zip(found.items(), panels, strict=True):
            draw_run(loss, score, run, floor_of(floors, name, run))
            # On the left, where it may reach over the gap to the score's panel.
            label = style.shorten(run.label, _LABEL)
            loss.set_title(f"{label}\nloss", fontsize=_SMALL, loc="left")
            score.set_title(score_name(run.task), fontsize=_SMALL)
        style.share_height([score for _, score in panels])
        style.hide_empty(grid)
        for column in zip(*grid, strict=True):
            for axes in [each for each in column if each.has_data()][-1:]:
                axes.set_xlabel("Epoch", fontsize=_SMALL)
        return figure, [
            *explained(runs, inputs),
            *unlearned_note(shown(flat, found), self.variants),
            *notes,
        ]

    def read_runs(self, inputs: Inputs) -> tuple[dict[str, Run], list[str]]:
        """Return the runs of the variants that have any, and the notes on missing runs."""
        found, notes = curves.histories_of(inputs, self.variants)
        ((paper, rule),) = inputs.facts["rules"].items()
        specs = {name: inputs.facts["stages"][name][-1]["spec"] for name in found}
        of_overall = inputs.overall_tasks(paper)
        runs = {
            name: _run(self.variants[name], of, specs[name], rule, of_overall)
            for name, of in found.items()
        }
        return runs, notes


def score_name(task: str) -> str:
    """Return what the panel of a task's score, or of the overall one, is called."""
    return "overall score" if task == "overall" else title_of(task)


def entries(floors: Mapping[reading.Of, float]) -> list[Line2D]:
    """Return the legend entries: train, dev and, if any is known, the floor."""
    made = [style.entry("train", TRAIN), style.entry("dev", DEV)]
    return [*made, Line2D([], [], label="floor", **style.FLOOR)] if floors else made


def floor_of(floors: Mapping[reading.Of, float], name: str, run: Run) -> float | None:
    """Return the floor of the score that is drawn of the variant `name`."""
    return floors.get(reading.Of(name, "dev", measure_of(run.task, run.metric)))


def draw_run(loss: Axes, score: Axes, run: Run, floor: float | None) -> None:
    """Draw a run's losses, on train smoothed over half an epoch, and scores with the floor."""
    for axes, lines, smooth in ((loss, run.loss, 0.5), (score, run.score, 0.0)):
        for curve, look, window in zip(lines, (TRAIN, DEV), (smooth, 0.0), strict=True):
            curves.draw_curve(axes, curve, look, window, faint=False)
        for line in axes.lines:
            line.set(markersize=2.2, linewidth=1.0)
        curves.epoch_axis(axes, curves.longest(run.histories), int(axes is score))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], nbins=3))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
        axes.tick_params(labelsize=_SMALL - 0.5, pad=1.5)
    if floor is not None:
        score.axhline(floor, **style.FLOOR)


def explained(runs: Sequence[Run], inputs: Inputs) -> list[str]:
    """Return the notes on losses, scores and floors."""
    rules = sorted({run.metric for run in runs if run.task == "overall"})
    (paper,) = inputs.facts["rules"]
    notes = [f"Overall: {overall_note(rule, inputs.overall_tasks(paper))}." for rule in rules[:1]]
    notes.append(
        "Loss: per training step, all its tasks combined; on train a running mean over half an "
        "epoch, with penalties and dropout; on dev without either. The squared error of numbers "
        "counts an offset of all predictions, which r ignores: so the dev loss may be twice "
        "the train loss while the scores agree."
    )
    if all(run.score[0] is None for run in runs):
        notes.append("These runs recorded no scores on train.")
    else:
        notes.append("Scores on train: on the training batches, during training.")
    return [*notes, FLOOR, curves.lines_note(len(run.histories) for run in runs)]


def shown(flat: Iterable[reading.Of], found: Mapping[str, Run]) -> list[reading.Of]:
    """Return those of the scores that the panels show, of an overall score each task's."""
    return sorted(
        of
        for of in flat
        if of.variant in found and found[of.variant].task in ("overall", of.measure)
    )


def _run(
    label: str,
    histories: list[curves.History],
    spec: Mapping[str, Any],
    rule: str,
    of_overall: Sequence[str],
) -> Run:
    weights = {name: of["weight"] for name, of in spec["tasks"].items() if of["trained"]}
    first = next(iter(weights))
    # The history has the overall score of what the stage trains.
    whole = set(of_overall) <= set(weights) and set(overall_tasks(weights)) == set(of_overall)
    task, metric = ("overall", rule) if whole else (first, TASKS[first].metric)
    total = "overall" if len(weights) > 1 else task
    trained = curves.curve_of(histories, Of("train", total, "loss"))
    tested = _dev_loss(histories, weights, spec["reduction"] == "mean")
    train, dev = (curves.curve_of(histories, Of(split, task, metric)) for split in ("train", "dev"))
    return Run(label, histories, task, metric, (trained, tested), (train, dev))


def _dev_loss(
    histories: Sequence[curves.History], weights: Mapping[str, float], mean: bool
) -> curves.Curve | None:
    """Return the tasks' dev losses added up like those of a training step; None if one lacks."""
    lines = [curves.curve_of(histories, Of("dev", task, "loss")) for task in weights]
    there = [curve for curve in lines if curve is not None]
    if len(there) < len(lines):
        return None
    parts = np.stack([w * of.values for w, of in zip(weights.values(), there, strict=True)])
    return curves.Curve(there[0].epochs, parts.mean(axis=0) if mean else parts.sum(axis=0))
