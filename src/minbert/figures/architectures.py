"""The models' layers, drawn from their specs: what tasks share, and what each has for itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pydantic import Field

from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.figures.spec import FigureSpec, render
from minbert.grid.architecture import Architecture
from minbert.grid.depth import shared_depth
from minbert.grid.parameters import encoder_parameters
from minbert.grid.tasks import TASKS

_SHARED, _OWN, _HEAD = "#56B4E9", "#F5D9A8", "#FFFFFF"
_MOST = 6
_SIZE = 5.5
_GAP = 0.06
_LAYER, _LAYERS, _LEAST = 0.3, 2.4, 0.9  # heights: of a layer, of all of them, of a block


class Spec(FigureSpec):
    """A drawing a variant, of its last stage; at most six."""

    variants: dict[str, str] = Field(min_length=1, max_length=_MOST)


class Block(NamedTuple):
    """Parts of the encoder that stand together: `layers` is their number, 0 for other parts."""

    name: str
    height: float
    layers: int
    parameters: int
    shared: bool


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the models of `spec` (see `Spec`) from their resolved specs and the backbone's shapes.

    A block over all columns is shared by all tasks; blocks side by side are one copy a task. Each
    says its parameters, those of one copy.
    """
    render("architectures", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    shapes = inputs.facts["architecture"]
    stages = {name: inputs.facts["stages"][name] for name in spec.variants}
    if shapes is None:
        return style.nothing(spec.title, "the backbone's shapes are not known yet"), []
    arch = Architecture.model_validate(shapes)
    figure, panels = style.panels(len(stages), 2.9)
    most = max(stage[-1]["parameters"]["total"] or 0 for stage in stages.values())
    heights = [_model(axes, of[-1], arch) for axes, of in zip(panels, stages.values(), strict=True)]
    for axes, (name, of) in zip(panels, stages.items(), strict=True):
        axes.set_ylim(-0.05, max(heights) + 0.4)
        total = of[-1]["parameters"]["total"]
        share = "" if total in (None, most) else f", {total / most:.0%} of the largest"
        counted = "not known" if total is None else f"{_count(total)}{share}"
        label = style.shorten(spec.variants[name], 30)
        axes.set_title(f"{label}\nparameters: {counted}", fontsize=7.5)
    figure.suptitle(spec.title)
    said = (
        f"Backbone: {arch.layers} layers of {arch.hidden} units. Blue, over all columns: shared. "
        "Orange: a copy for each task. Numbers: parameters of one copy; M: millions, k: thousands."
    )
    return figure, [said]


def blocks(spec: Mapping[str, Any], arch: Architecture) -> list[Block]:
    """Return the encoder's blocks from the bottom up, by how many layers `spec` shares."""
    parts = encoder_parameters(arch)
    depth = shared_depth(spec["shared_layers"], arch.layers)
    shared = depth or 0
    made = [Block("embeddings", 1.0, 0, parts.embeddings, depth is not None)]
    for first, last, together in ((1, shared, True), (shared + 1, arch.layers, False)):
        count = last - first + 1
        if count > 0:
            name = f"layers {first} to {last}" if count > 1 else f"layer {first}"
            height = max(_LEAST, count * max(_LAYER, _LAYERS / arch.layers))
            made.append(Block(name, height, count, count * parts.layer, together))
    made.append(Block("pooler", 0.8, 0, parts.pooler, shared == arch.layers))
    return made


def _model(axes: Axes, stage: Mapping[str, Any], arch: Architecture) -> float:
    """Draw a model; return its height."""
    spec = stage["spec"]
    tasks = [name for name in TASKS if name in spec["tasks"]]
    heads = stage["parameters"]["heads"]
    floor = 0.0
    for block in blocks(spec, arch):
        copies = [(0, len(tasks))] if block.shared else [(n, 1) for n in range(len(tasks))]
        for first, width in copies:
            color = _SHARED if block.shared or len(tasks) == 1 else _OWN
            _box(axes, first, floor, width, block.height, color)
            for line in range(1, block.layers):
                at = floor + line * (block.height - _GAP) / block.layers
                ends = (first + _GAP, first + width - _GAP)
                axes.plot(ends, (at, at), color="0.55", linewidth=0.3, zorder=2)
            said = f"{block.name}\n{_count(block.parameters)}"
            if width == 1 and len(tasks) > 2:
                said = said.replace("layers ", "layers\n").replace("embeddings", "embed-\ndings")
            _say(axes, first + width / 2, floor + (block.height - _GAP) / 2, said, color)
        floor += block.height
    for number, task in enumerate(tasks):
        _box(axes, number, floor, 1, 1.0, _HEAD)
        head = spec["tasks"][task]["head"]
        said = f"{TASKS[task].title}\n{head['name']}, {head['depth']}"
        _say(axes, number + 0.5, floor + (1 - _GAP) / 2, said, _HEAD)
    floor += 1.0
    known = "" if heads is None else f": {_count(heads)} in all"
    axes.text(len(tasks) / 2, floor, f"heads{known}", fontsize=_SIZE, ha="center", va="bottom")
    axes.set_xlim(0, len(tasks))
    axes.set_axis_off()
    return floor


def _box(axes: Axes, left: float, floor: float, width: float, height: float, color: str) -> None:
    corner = (left + _GAP / 2, floor)
    box = Rectangle(
        corner, width - _GAP, height - _GAP, facecolor=color, edgecolor="0.2", lw=0.5, zorder=1
    )
    axes.add_patch(box)


def _say(axes: Axes, x: float, y: float, said: str, behind: str) -> None:
    box = {"facecolor": behind, "edgecolor": "none", "pad": 0.8}
    about: dict[str, Any] = {"ha": "center", "va": "center", "linespacing": 1.1}
    axes.text(x, y, said, fontsize=_SIZE, bbox=box, zorder=3, **about)


def _count(number: int) -> str:
    """Return a number of parameters with three digits: `109 M`, `1.77 M`, `13.6 k`, `640`."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{_three(number / size)}{unit}"
    return str(number)


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
