"""Predictions of a task by seed, aligned example by example, and figures with a panel for each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.floors import against_floor
from minbert.evaluate.reading import METRIC_TITLES
from minbert.evaluate.selected import shared_ids
from minbert.figures import style
from minbert.figures.inputs import Inputs, OfSeeds, Values, missing_notes, present
from minbert.spec.task import TASKS

MOST_PANELS = 12  # more variants would not fit on a page
_COLUMNS = ("id", "task", "split", "prediction", "scores", "label")


class Predicted(NamedTuple):
    """The labelled dev examples: `ids` [n], `label` [n]; `prediction` [seeds, n], `scores`
    [seeds, n, outputs]: probabilities of the classes, or of class 1, or the value. There are no
    outputs if a seed lacks those of classes, as from a lean bundle."""

    seeds: tuple[int, ...]
    ids: list[str]
    label: Values
    prediction: Values
    scores: Values


def read_predicted(of_seeds: OfSeeds, task: str) -> Predicted | None:
    """Return what the seeds whose files exist predict of `task` on dev; None without such a file.

    Examples are in the order of their ids, so that variants can be compared. Seeds that predict
    different examples, and a file without labels, raise `UserError`.
    """
    there = present(of_seeds)
    if not there:
        return None
    read = {path: _read(path, task) for path in there.values()}
    first, (ids, label, *_) = next(iter(read.items()))
    for path, other in read.items():
        if other[0] != ids or not np.array_equal(other[1], label):
            raise UserError(
                f"{path}: its dev examples of '{task}' are not those of {first}; train the "
                "variant's seeds again, on the same data"
            )
    prediction = np.stack([one[2] for one in read.values()])
    width = min(one[3].shape[1] for one in read.values())  # 0 with a seed from a lean bundle
    scores = np.stack([one[3][:, :width] for one in read.values()])
    return Predicted(tuple(there), ids, label, prediction, scores)


def _read(path: Path, task: str) -> tuple[list[str], Values, Values, Values]:
    table = read_file(path, _COLUMNS, {"task": task, "split": "dev"})
    table = table.filter(pc.is_valid(table["label"])).sort_by("id")
    if table.num_rows == 0:
        raise UserError(f"{path}: no labelled dev examples of task '{task}'")
    scores = table["scores"].combine_chunks()
    flat = np.asarray(scores.flatten().to_numpy(zero_copy_only=False), dtype=float)
    if len(flat) % len(scores):
        raise UserError(f"{path}: rows of task '{task}' have different numbers of scores")
    label, prediction = (table[name].to_numpy().astype(float) for name in ("label", "prediction"))
    if not len(flat) and TASKS[task].kind == "binary":
        flat = prediction  # Lean bundles of earlier versions lack probabilities that equal these.
    return table["id"].to_pylist(), label, prediction, flat.reshape(len(scores), -1)


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
    shown = [name for name, of_seeds in wanted.items() if present(of_seeds)]
    read = {name: read_predicted(wanted[name], task) for name in shown[:MOST_PANELS]}
    found = {name: one for name, one in read.items() if one is not None}
    notes = missing_notes(variants, wanted, inputs.failed)
    if not found:
        return style.nothing(), [], notes
    shared = shared_ids([one.ids for one in found.values()])
    if shared is None:
        raise UserError(
            f"variants {', '.join(found)} predict different dev examples of '{task}'; "
            "train them again, on the same data"
        )
    if len(shown) > MOST_PANELS:
        notes.append(f"Not shown, for lack of space: {len(shown) - MOST_PANELS} more variants.")
    found = {name: _only(one, shared) for name, one in found.items()}
    figure, panels = style.panels(len(found), height)
    for axes, (name, one) in zip(panels, found.items(), strict=True):
        draw(axes, one, variants[name])
    return figure, list(found.values()), notes


def _only(one: Predicted, ids: set[str]) -> Predicted:
    """Return what is predicted of the examples `ids`."""
    kept = [n for n, name in enumerate(one.ids) if name in ids]
    found = (one.label[kept], one.prediction[:, kept], one.scores[:, kept])
    return Predicted(one.seeds, [one.ids[n] for n in kept], *found)


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
    single = all(len(one.seeds) == 1 for one in found)
    return measure if single else f"{measure}, mean and [smallest, largest] of the seeds"
