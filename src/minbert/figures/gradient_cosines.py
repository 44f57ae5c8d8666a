"""Do the tasks' gradients conflict? Their cosines over training, before and after surgery."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from minbert.evaluate.statistics import interval
from minbert.figures import style
from minbert.figures.curves import (
    Curve,
    History,
    Of,
    curve_of,
    draw_curve,
    epoch_axis,
    is_smoothed,
    lines_notes,
    longest,
    read_histories,
)
from minbert.figures.grids import entries_of, entry, panel_grid
from minbert.figures.inputs import Inputs, absent_notes, present
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS

PAIR = "gradient_cosine"
BEFORE, AFTER = "sum_cosine", "update_cosine"
_DOTS = (0, (1, 1.2))
_GREY = style.Look("0.4", "-", "")


class Spec(FigureSpec):
    """A line a variant. `smooth` is the running mean's width as a share of the longest run."""

    variants: dict[str, str] = Field(min_length=1)
    smooth: float = Field(default=1 / 10, ge=0, lt=1)


Runs = Mapping[str, Sequence[History]]


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the cosines of `spec` (see `Spec`) from the histories (Yu et al., 2020, section 2).

    First row: between two tasks' gradients of the shared parameters, before surgery. Second:
    between a task's gradient and the step's, which before surgery is the plain sum, and after it
    what surgery makes of that. Third: as the first, by group of layers, over all of training.
    Rows that no history has values for are left out.
    """
    render("gradient-cosines", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    there = {name: present(inputs.histories.get(name, {})) for name in spec.variants}
    absent = absent_notes(spec.variants, there, inputs.histories, inputs.failed)
    read = {name: read_histories(files) for name, files in there.items() if files}
    found = {name: runs for name, runs in read.items() if _tasks(runs, PAIR)}
    without = [spec.variants[name] for name in read if name not in found]
    if without:
        absent.append(f"No surgery, so no cosines: {', '.join(without)}.")
    if not found:
        return style.nothing(spec.title, "no cosines" if read else "no run yet"), absent
    every = [run for runs in found.values() for run in runs]
    pairs, tasks, groups = _tasks(every, PAIR), _tasks(every, AFTER), _groups(every)
    entries = entries_of({name: spec.variants[name] for name in found})
    if tasks:
        entries.append(entry("second row: the step after surgery", _GREY))
        entries.append(entry("before: the plain sum", _GREY, linestyle=_DOTS))
    columns = max(len(pairs), len(tasks))
    figure, rows = panel_grid(1 + bool(tasks) + bool(groups), columns, 1.6, entries)
    window = spec.smooth * longest(every)
    curves = _pairs(rows[0], found, pairs, window)
    if tasks:
        _steps(rows[1], found, tasks, window)
    if groups:
        _by_group(rows[-1], found, pairs, groups)
    for row in rows:
        _share_height(row)
        row[0].set_ylabel("Cosine")
    for axes in (axes for row in rows[: 1 + bool(tasks)] for axes in row):
        epoch_axis(axes, longest(every))
        axes.set_xlabel("Epoch")
    figure.suptitle(spec.title)
    smoothed = window if any(is_smoothed(curve, window) for curve in curves) else None
    notes = [lines_notes((len(curve.values) for curve in curves), smoothed)]
    if groups:
        bars = " Bars: 95 % interval over seeds." if max(map(len, found.values())) > 1 else ""
        notes.append(f"Last row: mean over all of training, by the layers that are shared.{bars}")
    return figure, [*notes, *absent]


def _tasks(runs: Iterable[History], metric: str) -> list[str]:
    """Return the tasks, or pairs of them, that the runs have training rows of `metric` for."""
    return list(dict.fromkeys(of.task for run in runs for of in run.rows if of.metric == metric))


def _groups(runs: Iterable[History]) -> list[str]:
    """Return the groups of layers in the order of the histories, which is that of the encoder."""
    named = (of.metric.partition("/") for run in runs for of in run.rows)
    return list(dict.fromkeys(group for metric, _, group in named if metric == PAIR and group))


def _said(pair: str) -> str:
    return " and ".join(TASKS[task].title if task in TASKS else task for task in pair.split("-"))


def _pairs(row: Sequence[Axes], found: Runs, pairs: Sequence[str], window: float) -> list[Curve]:
    drawn = []
    for axes, pair in zip(row, pairs, strict=False):
        axes.axhline(0, color="0.5", linewidth=0.7, zorder=1)
        axes.set_title(_said(pair))
        for number, runs in enumerate(found.values()):
            curve = curve_of(runs, Of("train", pair, PAIR))
            if curve is not None:
                draw_curve(axes, curve, "", style.look(number), window)
                drawn.append(curve)
    return drawn


def _steps(row: Sequence[Axes], found: Runs, tasks: Sequence[str], window: float) -> None:
    for axes, task in zip(row, tasks, strict=False):
        axes.axhline(0, color="0.5", linewidth=0.7, zorder=1)
        axes.set_title(f"{_said(task)} and the step")
        for number, runs in enumerate(found.values()):
            look = style.look(number)
            for metric, line, marker in ((AFTER, "-", look.marker), (BEFORE, _DOTS, "")):
                curve = curve_of(runs, Of("train", task, metric))
                if curve is not None:
                    drawn = style.Look(look.color, line, marker)
                    draw_curve(axes, curve, "", drawn, window, faint=False)


def _by_group(
    row: Sequence[Axes], found: Runs, pairs: Sequence[str], groups: Sequence[str]
) -> None:
    for axes, pair in zip(row, pairs, strict=False):
        axes.axhline(0, color="0.5", linewidth=0.7, zorder=1)
        for number, runs in enumerate(found.values()):
            look = style.look(number)
            places, means, bars = [], [], []
            for place, group in enumerate(groups):
                curve = curve_of(runs, Of("train", pair, f"{PAIR}/{group}"))
                if curve is not None:
                    mean = interval(curve.values.mean(axis=1).tolist())
                    places.append(place + 0.1 * (number - (len(found) - 1) / 2))
                    means.append(mean.mean)
                    bars.append(0.0 if mean.high is None else mean.high - mean.mean)
            about = {"color": look.color, "linestyle": look.linestyle, "marker": look.marker}
            axes.errorbar(places, means, yerr=bars, elinewidth=0.8, **about)
        axes.set_xticks(range(len(groups)), [_short(group) for group in groups])
        axes.set_xlim(-0.5, len(groups) - 0.5)
        axes.set_xlabel("Layer (E: embeddings, P: pooler)")


def _short(group: str) -> str:
    """Return a name that leaves room for those of 24 layers."""
    return {"embeddings": "E", "pooler": "P"}.get(group, group.rpartition("_")[2])


def _share_height(row: Sequence[Axes]) -> None:
    """Give the panels of a row one scale; those without anything are not shown."""
    used = [axes for axes in row if axes.has_data()]
    ends = [axes.get_ylim() for axes in used]
    for axes in row:
        if axes in used:
            axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
        else:
            axes.set_axis_off()
