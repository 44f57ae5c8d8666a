"""The models' layers, drawn from their specs: what the tasks share, and what each has its own."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from minbert.figures import style
from minbert.figures.read import Drawn, Inputs
from minbert.spec.architecture import Architecture, architecture_of, shared_parts
from minbert.spec.figures import Options
from minbert.spec.task import TASKS

_SHARED, _OWN, _HEAD = "#56B4E9", "#F5D9A8", "#FFFFFF"
_GAP = 0.06  # between boxes, which are a unit wide for each task


def architectures(_: Options, inputs: Inputs) -> Drawn:
    """Draw each variant's last stage, from its resolved spec and the backbone's shapes.

    A box over all columns is shared by all tasks; boxes side by side are one copy per task.
    """
    stages = [inputs.about["stages"][name][-1] for name in inputs.variants]
    counts = [stage["parameters"] for stage in stages]
    if not all(counts):
        raise style.NothingToShow
    arch = architecture_of(inputs.about["architecture"])
    figure, panels = style.panels(len(stages), 2.9, sharey=True)
    labels = inputs.variants.values()
    for axes, label, stage, known in zip(panels, labels, stages, counts, strict=True):
        total, heads = _count(known["total"]), _count(known["heads"])
        axes.set_title(f"{style.shorten(label, 30)}\nparameters: {total}, heads: {heads}")
        _model(axes, stage["spec"], arch)
    return figure, [
        f"Backbone: {arch.layers} layers of {arch.hidden} units. Blue, across all columns: shared. "
        "Orange: a copy for each task. White: heads, by their depth. Numbers after colons: "
        "parameters of one copy; M: millions, k: thousands."
    ]


def _model(axes: Axes, spec: Mapping[str, Any], arch: Architecture) -> None:
    """Draw boxes from the bottom up: one with a text for all tasks, or one for each task."""
    tasks = {name: spec["tasks"][name] for name in TASKS if name in spec["tasks"]}
    parts, high = arch.parameters(), 1 + arch.layers / 12
    shared = shared_parts(spec["shared_layers"], spec["shared_end"], arch.layers)
    layers = [(f"layer {n + 1}", size, n in shared.layers) for n, size in enumerate(parts.layers)]
    rows: list[tuple[float, str, list[str]]] = []
    for name, size, together in (
        ("embeddings", parts.embeddings, shared.embeddings),
        *layers,
        ("pooler", parts.pooler, shared.pooler),
    ):
        color, copies = (_SHARED, 1) if together or len(tasks) == 1 else (_OWN, len(tasks))
        rows.append((1, color, [f"{name}: {_count(size)}"] * copies))
    convolutions = [of["convolution"] for of in tasks.values()]
    texts = [of and "convolution" + "\n+ residual" * of["residual"] for of in convolutions]
    rows += [(high, _OWN, texts)] * any(texts)
    of_heads = ((TASKS[name].title, of["head"]) for name, of in tasks.items())
    rows.append(
        (high, _HEAD, [f"{task}\n{of['name']}, depth {of['depth']}" for task, of in of_heads])
    )
    floor = 0.0
    box: style.Look = {"edgecolor": "0.2", "linewidth": 0.5, "align": "edge", "clip_on": False}
    for height, color, texts in rows:
        width = len(tasks) / len(texts)
        lefts = [n * width for n, text in enumerate(texts) if text]
        boxes = axes.bar(lefts, height - _GAP, width - _GAP, floor, color=color, **box)
        font = min(5.5, 14 / len(texts))
        axes.bar_label(boxes, [*filter(None, texts)], label_type="center", fontsize=font)
        floor += height
    axes.margins(x=0.01)
    axes.set_axis_off()


def _count(number: int) -> str:
    """Return a number of parameters with three digits: `109 M`, `13.6 k`, `640`."""
    return EngFormatter()(float(f"{number:.3g}"))
