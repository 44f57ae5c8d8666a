"""The dev examples with the largest errors, with their text."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.textpath import TextToPath
from pydantic import Field

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.text import one_line
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, Values, VariantsSpec
from minbert.figures.predicted import Predicted, of_variants, seeds_of
from minbert.spec.task import TASKS

SIZE = 6.5  # points of the text
_LINE = SIZE * 1.3 / 72  # inches
_LEFT, _RIGHT = 0.15, 5.45  # inches: where the text begins and ends
_COLUMNS = (5.75, 6.22, 6.72)  # inches: the middles of label, prediction and error
_LINES = 3  # of one sentence; longer ones are cut off
_FAMILY = "DejaVu Sans"
_PATHS = TextToPath()


class Example(NamedTuple):
    """One row: the lines of its text, its label, prediction and error."""

    lines: list[str]
    label: str
    prediction: str
    error: str


Section = tuple[str, list[Example]]  # a task's heading and rows


class Spec(VariantsSpec):
    """`count` examples of each task, by their mean error over all variants and seeds.

    The error of a classifier is 1 minus the probability of the true class, that of a regression the
    distance from the label. Text is shown as `plain` makes it.
    """

    count: int = Field(default=4, ge=1, le=20)

    def plot(self, inputs: Inputs) -> Drawn:
        sections: list[Section] = []
        runs: set[int] = set()
        for task in (task for task in TASKS if task in inputs.examples):
            found, _ = of_variants(inputs, self.variants, task)
            if found:
                path = inputs.examples[task]
                sections.append(_section(task, list(found.values()), path, self.count))
                runs.add(sum(len(one.seeds) for one in found.values()))
        shown, absent = seeds_of(inputs, self.variants)
        if not sections:
            return style.nothing(), absent
        names = [label for name, label in self.variants.items() if shown[name]]
        others = f"{', '.join(names[:6])}{' and others' * (len(names) > 6)}"
        of = names[0] if len(names) == 1 else f"{len(names)} variants ({others})"
        number = " or ".join(map(str, sorted(runs)))
        said = f"Mean over {number} run{'s' * (runs != {1})} of {of}."
        error = "Error: 1 - probability of the label; STS: distance from the label."
        return _set(sections), [said, error, *absent]


def _section(task: str, found: Sequence[Predicted], path: Path, count: int) -> Section:
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
    """Return the errors [seeds, n]."""
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
    rows = read_file(path, columns, [("id", "in", list(ids))]).to_pylist()
    texts = {row["id"]: (row["sentence1"], row["sentence2"]) for row in rows}
    for name in ids:
        if name not in texts:
            raise UserError(
                f"{path}: no example '{name}', which is among the predictions; train the "
                "variants again, on this data"
            )
    limit = (_RIGHT - _LEFT) * 72
    return [
        [line for text in texts[name] if text for line in wrapped(plain(text), SIZE, limit, _LINES)]
        for name in ids
    ]


def _set(sections: Sequence[Section]) -> Figure:
    """Return the table as a figure; each row is as high as its text."""
    high = sum(1.9 + sum(len(row.lines) + 0.6 for row in rows) for _, rows in sections) * _LINE
    figure = style.new_figure(style.WIDE, high + 0.3)
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


def plain(text: str) -> str:
    """Return `text` on one line, without control characters (marks of direction too).

    Characters missing from the font appear as code points, `<U+4E2D>`. Right-to-left text stays in
    its logical order.
    """
    known = _known()
    return "".join(c if ord(c) in known else f"<U+{ord(c):04X}>" for c in one_line(text))


@cache
def _known() -> frozenset[int]:
    return frozenset(get_font(findfont(_FAMILY)).get_charmap())


def text_width(text: str, size: float) -> float:
    """Return the width of `text` at a font size, both in points."""
    font = FontProperties(family=_FAMILY, size=size)
    return float(_PATHS.get_text_width_height_descent(text, font, ismath=False)[0])


def wrapped(text: str, size: float, limit: float, most: int) -> list[str]:
    """Return `text` in at most `most` lines, none wider than `limit` points.

    A word that is wider than a line is broken. What does not fit is cut off, marked by an ellipsis.
    """
    lines: list[str] = []
    line = ""
    for word in text.split():
        rest = word
        while rest:
            tried = f"{line} {rest}" if line else rest
            if text_width(tried, size) <= limit:
                line, rest = tried, ""
            elif line:
                lines.append(line)
                line = ""
            else:
                widths = (range(1, len(rest) + 1), limit)
                fits = max(1, bisect_right(*widths, key=lambda n: text_width(rest[:n], size)))
                lines.append(rest[:fits])
                rest = rest[fits:]
            if len(lines) > most:
                break
    lines += [line] if line else []
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    while last and text_width(f"{last}\u2026", size) > limit:
        last = last[:-1]
    return [*lines[: most - 1], f"{last.rstrip()}\u2026"]
