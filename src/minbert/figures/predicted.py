"""Predictions of a task by seed, aligned example by example."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from minbert.common.errors import UserError
from minbert.evaluate.reading import read_columns
from minbert.figures.inputs import Inputs, OfSeeds, absent_notes, present

Values = NDArray[np.float64]
_COLUMNS = ("id", "task", "split", "prediction", "scores", "label")


class Predicted(NamedTuple):
    """The labelled examples of a split: `ids` [n], `label` [n]; `prediction` [seeds, n], `scores`
    [seeds, n, outputs]: probabilities of the classes, or of class 1, or the value."""

    seeds: tuple[int, ...]
    ids: list[str]
    label: Values
    prediction: Values
    scores: Values


def read_predicted(of_seeds: OfSeeds, task: str, split: str = "dev") -> Predicted | None:
    """Return what the seeds whose files are there predict of `task`; None without any such file.

    Examples are in the order of their ids, so that variants can be set side by side. Seeds that
    predict different examples, and a split without labels, raise `UserError`.
    """
    there = present(of_seeds)
    if not there:
        return None
    read = {seed: _read(path, task, split) for seed, path in there.items()}
    first, *others = there
    ids, label = read[first][:2]
    for seed in others:
        if read[seed][0] != ids or not np.array_equal(read[seed][1], label):
            raise UserError(
                f"{there[seed]}: its {split} examples of '{task}' are not those of "
                f"{there[first]}; train the variant's seeds again, on the same data"
            )
    prediction = np.stack([read[seed][2] for seed in there])
    return Predicted(tuple(there), ids, label, prediction, np.stack([read[s][3] for s in there]))


def _read(path: Path, task: str, split: str) -> tuple[list[str], Values, Values, Values]:
    table = read_columns(path, _COLUMNS, [("task", "=", task), ("split", "=", split)])
    table = table.filter(pc.is_valid(table["label"])).sort_by("id")
    if table.num_rows == 0:
        raise UserError(f"{path}: no labelled {split} examples of task '{task}'")
    scores = table["scores"].combine_chunks()
    flat = np.asarray(scores.flatten().to_numpy(zero_copy_only=False), dtype=float)
    if len(flat) % len(scores):
        raise UserError(f"{path}: rows of task '{task}' have different numbers of scores")
    numbers = (np.asarray(table[name].to_numpy(), dtype=float) for name in ("label", "prediction"))
    return table["id"].to_pylist(), *numbers, flat.reshape(len(scores), -1)


MOST_PANELS = 12
"""Variants that a figure of a panel each shows at most: more fill no page, but several."""


def of_variants(
    inputs: Inputs, variants: Mapping[str, str], task: str
) -> tuple[dict[str, Predicted], list[str]]:
    """Return what the variants that have run, {name: label}, predict on dev, at most `MOST_PANELS`.

    Also the notes that name what is not shown. Variants that predict different examples raise
    `UserError`.
    """
    wanted = {name: inputs.predictions.get(name, {}).get(task, {}) for name in variants}
    there = [name for name, of_seeds in wanted.items() if present(of_seeds)]
    found: dict[str, Predicted] = {}
    for name in there[:MOST_PANELS]:
        if (one := read_predicted(wanted[name], task)) is not None:
            found[name] = one
    if len({tuple(one.ids) for one in found.values()}) > 1:
        raise UserError(
            f"variants {', '.join(found)} predict different dev examples of '{task}'; "
            "train them again, on the same data"
        )
    shown = {name: present(wanted[name]) for name in there}
    notes = absent_notes(variants, shown, wanted, inputs.failed)
    if len(there) > MOST_PANELS:
        notes.append(f"{len(there) - MOST_PANELS} more variants are not shown, for want of room.")
    return found, notes
