"""Figures as they are drawn: their data, and their texts, none of which may overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from minbert.figures import style
from minbert.figures.make import drawn_kind
from minbert.figures.read import Inputs
from minbert.spec.figures import FIGURE_KINDS

STAMP = "commit 0123456789  backbone google-bert/bert-base-uncased  data real  5 seeds"


@contextmanager
def _drawn() -> Iterator[list[Text]]:
    """Yield the list of texts that are really drawn in the block."""
    drawn: list[Text] = []
    before = Text.draw

    def draw(self: Text, renderer: RendererBase) -> None:
        if self.get_visible() and self.get_text().strip():
            drawn.append(self)
        before(self, renderer)

    Text.draw = draw  # type: ignore[method-assign]
    try:
        yield drawn
    finally:
        Text.draw = before  # type: ignore[method-assign]


def text_faults(figure: Figure, notes: list[str], title: str = "") -> list[str]:
    """Return what is wrong with a figure's texts: those that overlap, or leave the canvas.

    Call it inside `style.style()`. A quarter of a line's height may overlap: a box holds room
    above and below its letters.
    """
    style.finish(figure, [*notes, STAMP], title)
    with _drawn() as texts:
        FigureCanvasAgg(figure).draw()  # the Agg renderer, whose extents are those of the PNG
    boxes = [(text, _box(text)) for text in dict.fromkeys(texts)]
    width, height = figure.bbox.width, figure.bbox.height
    faults = [
        f"{text.get_text()!r} leaves the canvas: {box.extents.round(1)} of {width} x {height}"
        for text, box in boxes
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]
    for (one, a), (other, b) in combinations(boxes, 2):
        if a.overlaps(b):
            faults.append(f"{one.get_text()!r} overlaps {other.get_text()!r}")
    return faults


def _box(text: Text) -> Bbox:
    box = text.get_window_extent()
    slack = 0.25 * text.get_fontsize() * text.figure.dpi / 72  # type: ignore[union-attr]
    wide, high = min(slack, box.width / 3), min(slack, box.height / 3)
    return Bbox.from_extents(
        box.x0 + wide / 2, box.y0 + high / 2, box.x1 - wide / 2, box.y1 - high / 2
    )


def drawn(
    kind: str, inputs: Inputs, variants: str = "", **options: Any
) -> tuple[Figure, list[str]]:
    """Return the figure that a kind makes, without its title, and its notes.

    `variants` are named by words; default: those of `inputs`.
    """
    if variants:
        inputs = replace(inputs, variants={name: name.upper() for name in variants.split()})
    with style.style():
        figure, notes = drawn_kind(kind, FIGURE_KINDS[kind](**options), inputs)
    return figure, [note for note in notes if note]


def texts_of(kind: str, inputs: Inputs, **options: Any) -> str:
    """Return all texts of a figure, which must neither overlap nor leave it."""
    figure, notes = drawn(kind, inputs, **options)
    with style.style():
        assert text_faults(figure, notes, title="What is shown") == []
    texts = " ".join(text.get_text() for text in figure.findobj(Text)).replace("\n", " ")
    assert "What is shown" in texts and "commit 0123456789" in texts
    return texts


def described(figure: Figure) -> str:
    """Return the data that a figure shows, panel by panel; of long lines, some points."""
    return "\n".join(line for axes in figure.axes for line in _panel(axes))


def _panel(axes: Axes) -> Iterator[str]:
    title = " / ".join(axes.get_title(loc) for loc in ("left", "center") if axes.get_title(loc))
    ends = f"{_numbers(axes.get_xlim())} {_numbers(axes.get_ylim())}" * axes.axison
    yield f"# {title!r} {axes.get_xlabel()!r} {axes.get_ylabel()!r} {ends}"
    for line in axes.lines:
        x, y = (np.asarray(values, dtype=float) for values in line.get_data())
        some = np.unique(np.linspace(0, len(x) - 1, min(len(x), 5)).astype(int))
        look = f"{line.get_label()} {line.get_color()} {line.get_marker()}".lstrip("_")
        yield f"line {look} {_numbers(x[some])} {_numbers(y[some])}"
    for image in axes.images:
        yield f"image {_numbers(np.ma.filled(image.get_array(), np.nan).ravel())}"
    for kind in axes.collections:
        values = np.concatenate([path.vertices for path in kind.get_paths()] or [np.zeros((1, 2))])
        if len(offsets := np.asarray(kind.get_offsets())) > 1:
            values = offsets
        some = np.linspace(0, len(values) - 1, min(len(values), 5)).astype(int)
        yield f"{type(kind).__name__} {len(values)} {_numbers(values[some].ravel())}"
    bars = [patch.get_bbox().bounds for patch in axes.patches if hasattr(patch, "get_bbox")]
    if bars:
        yield f"boxes {len(bars)} {_numbers(np.sum(bars, axis=0))}"
    for text in (*axes.texts, *axes.get_yticklabels()):
        if text.get_text():
            yield f"text {text.get_text()!r}"


def _numbers(values: Iterable[float]) -> str:
    return "(" + " ".join(f"{round(float(value), 3) + 0:.3g}" for value in values) + ")"
