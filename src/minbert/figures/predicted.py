"""Predictions of a task by seed, aligned example by example, and figures with a panel for each."""

from collections.abc import Callable, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minbert.evaluate.floors import against_floor
from minbert.evaluate.predictions import Predicted, aligned, read_predicted
from minbert.evaluate.reading import METRIC_TITLES
from minbert.figures import style
from minbert.figures.inputs import Inputs, missing_notes, present
from minbert.spec.task import TASKS

MOST_PANELS = 12  # more variants would not fit on a page


def panel_each(
    inputs: Inputs, task: str, height: float, draw: Callable[[Axes, Predicted, str], None]
) -> tuple[Figure, list[Predicted], list[str]]:
    """Return a figure with a panel for each variant that has predictions, these, and notes.

    `draw` gets the axes, the predictions on dev and the label. Not more than `MOST_PANELS` are
    shown. If a half of dev chose the epochs of some, all are shown on the other half. Variants of
    different data raise `UserError`.
    """
    variants = inputs.variants
    wanted = {name: inputs.predictions.get(name, {}).get(task, {}) for name in variants}
    there = {name: paths for name, of in wanted.items() if (paths := present(of).values())}
    shown = list(there)[:MOST_PANELS]
    found = {name: read_predicted(there[name], task) for name in shown}
    notes = missing_notes(variants, wanted, inputs.failed)
    if not found:
        return style.nothing(), [], notes
    if len(there) > MOST_PANELS:
        notes.append(f"Not shown, for lack of space: {len(there) - MOST_PANELS} more variants.")
    found = dict(zip(found, aligned(found, f"dev examples of '{task}'"), strict=True))
    figure, panels = style.panels(len(found), height)
    for axes, (name, one) in zip(panels, found.items(), strict=True):
        draw(axes, one, variants[name])
    return figure, list(found.values()), notes


def standing(task: str, one: Predicted) -> str:
    """Return what a head says of runs not above the floor: "\u00d7 predicts one class only"."""
    tests = [against_floor(task, prediction, one.label) for prediction in one.prediction]
    same = "one number" if TASKS[task].kind == "regression" else "one class only"
    constant = sum(test.constant for test in tests)
    below = sum(not test.above and not test.constant for test in tests)
    found = []
    for count, verb, words in ((constant, "predicts ", same), (below, "", "not above the floor")):
        if count:
            of = verb if count == len(tests) else f"{count} of {len(tests)} seeds: "
            found.append(f"\u00d7 {of}{words}")
    return "\n".join(found)


def floor_note(task: str, one: Predicted) -> str:
    """Return the note on the floor of the examples, and the cross of `standing`."""
    floor, metric = against_floor(task, one.prediction[0], one.label).floor, TASKS[task].metric
    said = f"{METRIC_TITLES[metric].rpartition(' ')[2]} = {floor:.3g}"
    if metric == "accuracy":
        said = f"the most frequent class, {floor:.3f}"
    return f"Floor: {said}. \u00d7: not above it at the 5 % level."


def set_head(axes: Axes, label: str, measure: str, of_seeds: Sequence[float], *more: str) -> None:
    """Write the label and the mean over seeds above a panel, with the smallest and largest of them.

    Each of `more` that is not empty is a line below.
    """
    ends = f" [{min(of_seeds):.3f}, {max(of_seeds):.3f}]" if len(of_seeds) > 1 else ""
    mean = f"{measure} {fmean(of_seeds):.3f}{ends}"
    lines = [style.shorten(label, 30), mean, *filter(None, more)]
    axes.set_title("\n".join(lines), fontsize=7.5)


def over_seeds(found: Sequence[Predicted], measure: str) -> str:
    """Return what the heads say of several seeds: "accuracy, mean and [smallest, largest] ..."."""
    single = all(len(one.prediction) == 1 for one in found)
    return measure if single else f"{measure}, mean and [smallest, largest] of the seeds"
