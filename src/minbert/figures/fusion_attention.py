"""Which adapters a fusion attends to, layer by layer (Pfeiffer et al., 2021, Figure 4)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field

from minbert.figures import style
from minbert.figures.curves import History, read_histories
from minbert.figures.heat import heat_map
from minbert.figures.inputs import Inputs, OfSeeds, absent_notes, present
from minbert.figures.scored import TITLES
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS

_METRIC = re.compile(r"fusion_attention/(\d+)/(attention|feed_forward)/(\d+)")
_PLACES = ("attention", "feed_forward")
_WORDS = {"attention": "attention", "feed_forward": "feed-forward"}
_MOST = 4  # panels side by side
Values = NDArray[np.float64]


class Spec(FigureSpec):
    """A panel for each fusion of the variants."""

    variants: dict[str, str] = Field(min_length=1)


class Target(NamedTuple):
    """The fusion that a stage trains for `task`, over adapters of these names."""

    title: str
    task: str
    variant: str
    files: OfSeeds
    adapters: list[str]


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the mean attention over adapters of the fusions of `spec` from their histories.

    A row is a sublayer, the first layer at the bottom; a column an adapter. A row adds up to 1:
    it is the mean over all tokens of the target's dev set, and over seeds.
    """
    render("fusion-attention", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    targets = _targets(spec, inputs)
    labels = {target.title: target.title for target in targets}
    there = {target.title: present(target.files) for target in targets}
    wanted = {target.title: target.files for target in targets}
    failed = {target.title for target in targets if target.variant in inputs.failed}
    notes = absent_notes(labels, there, wanted, failed)
    found: list[tuple[Target, Values, list[tuple[int, str]]]] = []
    for target in targets:
        runs = read_histories(target.files)
        rows = _sublayers(runs, target.task)
        if rows:
            found.append((target, _mean(runs, target.task, rows, len(target.adapters)), rows))
        elif runs:
            notes.append(f"{target.title}: its runs recorded no attention.")
    if not found:
        return style.nothing(spec.title, "no attention yet"), notes
    most = max(len(rows) for _, _, rows in found)
    figure, panels = style.panels(len(found), 1.1 + 0.15 * most, _MOST)
    for axes, (target, values, rows) in zip(panels, found, strict=True):
        words = [[f"{value:.2f}" for value in row] for row in values]
        sublayers = [f"{layer} {_WORDS[place]}" for layer, place in rows]
        names = [style.shorten(name, 12) for name in target.adapters]
        heat_map(axes, values, words, sublayers, names, (0, 1), size=5.5)
        axes.tick_params(axis="y", labelsize=5.5)
        axes.tick_params(axis="x", labelsize=6.5, rotation=90)
        # To the right: what stands left of the axes gives a title room, what is right of them none.
        title = f"target:\n{style.shorten(target.title, 22)}"
        axes.set_title(title, fontsize=7.5, loc="right")
        axes.set(xlabel="adapter", ylabel="layer" if axes is panels[0] else "")
    figure.suptitle(spec.title)
    seeds = max(len(of) for of in there.values())
    over = f"mean of {seeds} seeds" if seeds > 1 else "1 seed"
    even = " or ".join(sorted({f"{1 / len(t.adapters):.2f}" for t, _, _ in found}))
    said = f"Mean over the tokens of the target's dev set, {over}. Rows add up to 1. Even: {even}."
    return figure, [said, *notes]


def _targets(spec: Spec, inputs: Inputs) -> list[Target]:
    targets = []
    for name, label in spec.variants.items():
        stages = [s for s in inputs.facts["stages"][name] if s["fused"]]
        for stage in stages:
            files = inputs.stage_histories.get(name, {}).get(stage["name"], {})
            adapters = [_title(ref.partition("/")[2]) for ref in stage["fused"]]
            for task, about in stage["spec"]["tasks"].items():
                if about["trained"]:
                    said = _title(task) if len(spec.variants) == 1 else f"{label}, {_title(task)}"
                    targets.append(Target(said, task, name, files, adapters))
    return targets


def _title(task: str) -> str:
    return TITLES[task].split()[0] if task in TASKS else task


def _attention(run: History, task: str) -> Mapping[tuple[int, str, int], float]:
    """Return {(layer, sublayer, adapter): weight} of one run."""
    found = {}
    for of, values in run.rows.items():
        match = _METRIC.fullmatch(of.metric)
        if match and of.task == task:
            layer, place, adapter = match.groups()
            found[int(layer), place, int(adapter)] = values[max(values)]
    return found


def _sublayers(runs: Sequence[History], task: str) -> list[tuple[int, str]]:
    """Return the sublayers that the runs recorded, the last at the top."""
    named = {(layer, place) for run in runs for layer, place, _ in _attention(run, task)}
    return sorted(named, key=lambda at: (at[0], _PLACES.index(at[1])), reverse=True)


def _mean(runs: Sequence[History], task: str, rows: list[tuple[int, str]], count: int) -> Values:
    """Return the weights [sublayers, adapters], the mean of the runs; NaN where one has none."""
    of_runs = [_attention(run, task) for run in runs]
    weights = [
        [[of.get((*row, n), np.nan) for n in range(count)] for row in rows] for of in of_runs
    ]
    return np.asarray(np.mean(weights, axis=0))
