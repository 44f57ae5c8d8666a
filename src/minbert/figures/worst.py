"""The dev examples that are most wrong, with their text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field

from minbert.common.errors import UserError
from minbert.evaluate.reading import read_columns
from minbert.figures import style
from minbert.figures.inputs import Inputs, absent_notes, present
from minbert.figures.predicted import Predicted, of_variants
from minbert.figures.spec import FigureSpec, render
from minbert.figures.text import plain, wrapped
from minbert.grid.tasks import TASKS

SIZE = 6.5
"""Points of the text."""

_LINE = SIZE * 1.3 / 72  # inches
_LEFT, _RIGHT = 0.15, 5.45  # inches: where the text begins and ends
_COLUMNS = (5.75, 6.22, 6.72)  # inches: the middles of label, prediction and error
_LINES = 3  # of one sentence; a review that goes on is cut off
Values = NDArray[np.float64]


class Spec(FigureSpec):
    """`count` examples of each task, by their mean error over all variants and seeds."""

    variants: dict[str, str] = Field(min_length=1)
    count: int = Field(default=4, ge=1, le=20)


class Example(NamedTuple):
    """One row: the lines of its text, its label, what is predicted of it, how wrong that is."""

    lines: list[str]
    label: str
    prediction: str
    error: str


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Set the table of `spec` (see `Spec`) from dev predictions and the example tables.

    The error of a classifier is 1 minus the probability of the true class, of a regression the
    distance from the label. Text is shown as `minbert.figures.text.plain` makes it.
    """
    render("worst-examples", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    tasks = [task for task in TASKS if task in inputs.examples]
    sections: list[tuple[str, list[Example]]] = []
    runs: set[int] = set()
    for task in tasks:
        found, _ = of_variants(inputs, spec.variants, task)
        if found:
            head, rows = _section(task, list(found.values()), inputs.examples[task], spec.count)
            sections.append((head, rows))
            runs.add(sum(len(one.seeds) for one in found.values()))
    wanted: dict[str, set[int]] = {}
    shown: dict[str, set[int]] = {}
    for name in spec.variants:
        for of_seeds in inputs.predictions.get(name, {}).values():
            wanted.setdefault(name, set()).update(of_seeds)
            shown.setdefault(name, set()).update(present(of_seeds))
    absent = absent_notes(spec.variants, shown, wanted, inputs.failed)
    if not sections:
        return style.nothing(spec.title), absent
    names = [spec.variants[name] for name in spec.variants if shown.get(name)]
    of = names[0] if len(names) == 1 else f"{len(names)} variants ({', '.join(names[:6])}"
    of += "" if len(names) == 1 else f"{' and others' * (len(names) > 6)})"
    number = " or ".join(map(str, sorted(runs)))
    notes = [f"Mean over {number} run{'s' * (runs != {1})} of {of}."]
    notes.append("Error: 1 - probability of the label; STS: distance from the label.")
    return _set(spec.title, sections), [*notes, *absent]


def _section(
    task: str, found: Sequence[Predicted], path: Path, count: int
) -> tuple[str, list[Example]]:
    """Return the heading and rows of a task."""
    label = found[0].label
    errors = np.concatenate([_errors(task, one) for one in found]).mean(axis=0)
    worst = np.lexsort((np.arange(len(errors)), -errors))[:count]
    texts = _texts(path, [found[0].ids[n] for n in worst])
    rows = [
        Example(lines, f"{label[n]:g}", _said(task, found, int(n)), f"{errors[n]:.2f}")
        for n, lines in zip(worst, texts, strict=True)
    ]
    what = "pairs" if TASKS[task].pair else "sentences"
    return f"{TASKS[task].title}: the worst {len(rows)} of {len(label)} dev {what}", rows


def _errors(task: str, one: Predicted) -> Values:
    """Return how wrong each prediction is, [seeds, n]."""
    kind = TASKS[task].kind
    if kind == "regression":
        return np.abs(one.prediction - one.label)
    if kind == "binary":
        return np.where(one.label > 0, 1 - one.scores[:, :, 0], one.scores[:, :, 0])
    right = one.label.astype(int)
    return np.asarray(1 - one.scores[:, np.arange(len(right)), right])


def _said(task: str, found: Sequence[Predicted], n: int) -> str:
    """Return what is predicted of example `n`: the mean, or the commonest class."""
    values = np.concatenate([one.prediction[:, n] for one in found])
    if TASKS[task].kind == "regression":
        return f"{values.mean():.2f}"
    classes, counts = np.unique(values, return_counts=True)
    return f"{classes[counts.argmax()]:g}"


def _texts(path: Path, ids: Sequence[str]) -> list[list[str]]:
    """Return the lines of each example's sentences."""
    columns = ("id", "sentence1", "sentence2")
    rows = read_columns(path, columns, [("id", "in", list(ids))]).to_pylist()
    by_id: Mapping[str, Any] = {row["id"]: row for row in rows}
    for name in ids:
        if name not in by_id:
            raise UserError(
                f"{path}: no example '{name}', which is among the predictions; train the variants "
                "again, on this data"
            )
    limit = (_RIGHT - _LEFT) * 72
    return [
        [
            line
            for sentence in (by_id[name]["sentence1"], by_id[name]["sentence2"])
            if sentence is not None
            for line in wrapped(plain(sentence), SIZE, limit, _LINES)
        ]
        for name in ids
    ]


def _set(title: str, sections: Sequence[tuple[str, list[Example]]]) -> Figure:
    """Return the table as a figure; each row is as high as its text."""
    high = sum(1.9 + sum(len(row.lines) + 0.6 for row in rows) for _, rows in sections) * _LINE
    figure = style.new_figure(style.WIDE, high + 0.3)
    figure.suptitle(title)
    axes = figure.add_subplot(xlim=(0, style.WIDE), ylim=(high, 0))  # in inches
    axes.set_axis_off()
    at = 0.0

    def put(x: float, text: str, ha: Any = "left", **more: Any) -> None:
        axes.text(x, at, text, ha=ha, va="top", fontsize=SIZE, **more)

    for head, rows in sections:
        put(0.0, head, weight="bold")
        for x, word in zip(_COLUMNS, ("label", "predicted", "error"), strict=True):
            put(x, word, "center", color="0.35")
        at += 1.5 * _LINE
        for row in rows:
            for x, word in zip(_COLUMNS, row[1:], strict=True):
                put(x, word, "center")
            for line in row.lines:
                put(_LEFT, line)
                at += _LINE
            at += 0.6 * _LINE
        at += 0.4 * _LINE
    return figure
