"""Which adapters a fusion attends to, layer by layer (Pfeiffer et al., 2021, Figure 4)."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from minbert.figures import style
from minbert.figures.histories import History, read_histories
from minbert.figures.inputs import (
    Drawn,
    Inputs,
    OfSeeds,
    Values,
    mean_of,
    missing_notes,
    present,
    task_title,
)
from minbert.spec.figures import Options

_METRIC = re.compile(r"fusion_attention/(\d+)/(attention|feed_forward)/(\d+)")


class Target(NamedTuple):
    """The fusion that a stage trains for `task`, over adapters of these names."""

    title: str
    task: str
    variant: str
    files: OfSeeds
    adapters: list[str]


def fusion_attention(_: Options, inputs: Inputs) -> Drawn:
    """Draw a panel for each fusion of the variants: its mean attention over adapters.

    A row is a sublayer, with the first layer at the bottom; a column is an adapter. A row adds up
    to 1: it is the mean over all tokens of the target's dev set, and over seeds.
    """
    targets = list(_targets(inputs))
    files = {target.title: target.files for target in targets}
    failed = {target.title for target in targets if target.variant in inputs.failed}
    notes = missing_notes({title: title for title in files}, files, failed)
    found: list[tuple[Target, dict[tuple[int, str], Values]]] = []
    for target in targets:
        runs = read_histories(target.files)
        if weights := _weights(runs, target):
            found.append((target, weights))
        elif runs:
            notes.append(f"{target.title}: its runs recorded no attention.")
    if not found:
        return style.nothing("no attention yet"), notes
    rows = max(len(weights) for _, weights in found)
    figure, panels = style.panels(len(found), 1.1 + 0.15 * rows, 4)
    for axes, (target, weights) in zip(panels, found, strict=True):
        values = np.stack(list(weights.values()))
        words = [[f"{value:.2f}" for value in row] for row in values]
        sublayers = [f"{layer} {place.replace('_', '-')}" for layer, place in weights]
        names = [style.shorten(name, 12) for name in target.adapters]
        style.heat_map(axes, values, words, sublayers, names, (0, 1), size=5.5)
        axes.tick_params(axis="y", labelsize=5.5)
        axes.tick_params(axis="x", rotation=90)
        axes.set_title(f"target:\n{style.shorten(target.title, 22)}", loc="right")
        axes.set(xlabel="adapter", ylabel="layer" if axes is panels[0] else "")
    over = mean_of(len(present(target.files)) for target, _ in found)
    even = " or ".join(sorted({f"{1 / len(target.adapters):.2f}" for target, _ in found}))
    said = f"Mean over the tokens of the target's dev set, {over}. Rows add up to 1."
    return figure, [f"{said} Uniform attention: {even}.", *notes]


def _targets(inputs: Inputs) -> Iterator[Target]:
    for name, label in inputs.variants.items():
        for stage in (s for s in inputs.about["stages"][name] if s["fused"]):
            files = inputs.histories.get(name, {}).get(stage["name"], {})
            adapters = [task_title(ref.partition("/")[2]) for ref in stage["fused"]]
            for task, about in stage["spec"]["tasks"].items():
                if about["trained"]:
                    of = "" if len(inputs.variants) == 1 else f"{label}, "
                    yield Target(of + task_title(task), task, name, files, adapters)


def _weights(runs: Sequence[History], target: Target) -> dict[tuple[int, str], Values]:
    """Return {(layer, sublayer): weights [adapters]}, the mean of the runs, the last layer first.

    A weight that a run lacks is NaN.
    """
    shape = (len(runs), len(target.adapters))
    found: dict[tuple[int, str], Values] = {}
    for number, run in enumerate(runs):
        for of, values in run.rows.items():
            match = _METRIC.fullmatch(of.metric)
            if match and of.task == target.task:
                layer, place, adapter = match.groups()
                weights = found.setdefault((int(layer), place), np.full(shape, np.nan))
                weights[number, int(adapter)] = values[max(values)]
    return {at: found[at].mean(axis=0) for at in sorted(found, reverse=True)}
