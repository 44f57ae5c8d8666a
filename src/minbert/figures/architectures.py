"""The models' layers, drawn from their specs: what the tasks share, and what each has its own."""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs
from minbert.spec.architecture import Architecture, architecture_of, shared_parts
from minbert.spec.figures import Architectures
from minbert.spec.task import TASKS

_SHARED, _OWN, _HEAD = "#56B4E9", "#F5D9A8", "#FFFFFF"
_GAP = 0.06
_LAYER, _LAYERS, _LEAST = 0.3, 2.4, 0.9  # heights: of a layer, of all of them, of a block


class Block(NamedTuple):
    """Parts of the encoder drawn as one: `layers` is their number, 0 for other parts."""

    name: str
    height: float
    layers: int
    parameters: int
    shared: bool


def architectures(_: Architectures, inputs: Inputs) -> Drawn:
    """Draw each variant's last stage, from its resolved spec and the backbone's shapes.

    A block over all columns is shared by all tasks; blocks side by side are one copy per task.
    """
    shapes = inputs.about["architecture"]
    if shapes is None:
        return style.nothing("the backbone's shapes are not known yet"), []
    arch = architecture_of(shapes)
    stages = [inputs.about["stages"][name][-1] for name in inputs.variants]
    totals = [(stage["parameters"] or {}).get("total") for stage in stages]
    most = max(total or 0 for total in totals)
    figure, panels = style.panels(len(stages), 2.9)
    highest = max(_model(axes, stage, arch) for axes, stage in zip(panels, stages, strict=True))
    for axes, label, total in zip(panels, inputs.variants.values(), totals, strict=True):
        axes.set_ylim(-0.05, highest + 0.4)
        share = "" if total in (None, most) else f", {total / most:.0%} of the largest"
        counted = "not known" if total is None else f"{_count(total)}{share}"
        axes.set_title(f"{style.shorten(label, 30)}\nparameters: {counted}")
    return figure, [
        f"Backbone: {arch.layers} layers of {arch.hidden} units. Blue, across all columns: shared. "
        "Orange: a copy for each task. Numbers: parameters of one copy; M: millions, k: thousands."
    ]


def blocks(spec: Mapping[str, Any], arch: Architecture) -> list[Block]:
    """Return the encoder's blocks from the bottom up, by what `spec` shares."""
    parts = arch.parameters()
    shared = shared_parts(spec["shared_layers"], spec["shared_end"], arch.layers)
    made = [Block("embeddings", 1.0, 0, parts.embeddings, shared.embeddings)]
    runs = itertools.groupby(range(arch.layers), key=lambda number: number in shared.layers)
    for together, numbers in runs:
        first, *more = numbers
        count = 1 + len(more)
        name = f"layers {first + 1} to {more[-1] + 1}" if more else f"layer {first + 1}"
        height = max(_LEAST, count * max(_LAYER, _LAYERS / arch.layers))
        inside = sum(parts.layers[first : first + count])
        made.append(Block(name, height, count, inside, together))
    made.append(Block("pooler", 0.8, 0, parts.pooler, shared.pooler))
    return made


def _model(axes: Axes, stage: Mapping[str, Any], arch: Architecture) -> float:
    """Draw a model; return its height."""
    spec = stage["spec"]
    tasks = [name for name in TASKS if name in spec["tasks"]]
    count = len(tasks)
    floor = 0.0
    for block in blocks(spec, arch):
        together = block.shared or count == 1
        said = f"{block.name}\n{_count(block.parameters)}"
        if not together and count > 2:
            said = said.replace("layers ", "layers\n").replace("embeddings", "embed-\ndings")
        for left in range(1 if together else count):
            width, color = (count, _SHARED) if together else (1, _OWN)
            _box(axes, left, floor, width, block.height, color, said, block.layers)
        floor += block.height
    convolutions = {n: spec["tasks"][task]["convolution"] for n, task in enumerate(tasks)}
    for number, convolution in convolutions.items():
        if convolution:
            said = "convolution" + "\n+ residual" * convolution["residual"]
            _box(axes, number, floor, 1, 1.0, _OWN, said)
    floor += any(convolutions.values())
    for number, task in enumerate(tasks):
        head = spec["tasks"][task]["head"]
        said = f"{TASKS[task].title}\n{head['name']}, {head['depth']}"
        _box(axes, number, floor, 1, 1.0, _HEAD, said)
    heads = (stage["parameters"] or {}).get("heads")
    known = "" if heads is None else f": {_count(heads)} in total"
    axes.text(count / 2, floor + 1, f"heads{known}", fontsize=5.5, ha="center", va="bottom")
    axes.set_xlim(0, count)
    axes.set_axis_off()
    return floor + 1


def _box(
    axes: Axes,
    left: float,
    floor: float,
    width: float,
    height: float,
    color: str,
    said: str,
    layers: int = 0,
) -> None:
    """Draw a box with what is `said` of it, and lines between its `layers`."""
    box = Rectangle((left + _GAP / 2, floor), width - _GAP, height - _GAP)
    box.set(facecolor=color, edgecolor="0.2", linewidth=0.5, zorder=1)
    axes.add_patch(box)
    lines = [floor + n * (height - _GAP) / layers for n in range(1, layers)]
    axes.hlines(lines, left + _GAP, left + width - _GAP, color="0.55", linewidth=0.3, zorder=2)
    behind = {"facecolor": color, "edgecolor": "none", "pad": 0.8}
    about: dict[str, Any] = {"ha": "center", "va": "center", "linespacing": 1.1, "zorder": 3}
    x, y = box.get_center()
    axes.text(x, y, said, fontsize=5.5, bbox=behind, **about)


def _count(number: int) -> str:
    """Return a number of parameters with three digits: `109 M`, `1.77 M`, `13.6 k`, `640`."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if (value := number / size) >= 1:
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}{unit}"
    return str(number)
