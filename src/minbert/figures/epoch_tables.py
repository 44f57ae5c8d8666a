"""A paper's tables of losses and scores by epoch, as curves, with ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import BaseModel, ConfigDict, Field

from minbert.common.errors import UserError, nearest
from minbert.figures import style
from minbert.figures.curves import (
    History,
    Of,
    curve_of,
    draw_curve,
    epoch_axis,
    lines_notes,
    longest,
    read_histories,
)
from minbert.figures.grids import entry, panel_grid
from minbert.figures.inputs import Inputs, absent_notes, present
from minbert.figures.scored import TITLES
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS

_ACROSS = 4
DEV, TRAIN = style.LOOKS[0], style.LOOKS[4]
PUBLISHED_DEV = style.Look("0.45", (0, (1, 1.2)), "o")
PUBLISHED_TRAIN = style.Look("0.45", (0, (1, 1.2)), "v")


class Table(BaseModel):
    """One table: our stage, and what the paper printed by epoch (nothing: not printed)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    variant: str
    stage: str
    task: str
    loss: tuple[float, ...] = ()
    train: tuple[float, ...] = ()
    dev: tuple[float, ...] = ()


class Spec(FigureSpec):
    """Two panels a table: training loss above, scores below."""

    variants: dict[str, str] = Field(min_length=1)
    tables: tuple[Table, ...] = Field(min_length=1)


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the tables of `spec` (see `Spec`) from the histories of our stages."""
    render("epoch-tables", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    read = {table.title: read_histories(_files(spec, inputs, table)) for table in spec.tables}
    entries = [entry("ours, dev", DEV), entry("published, dev", PUBLISHED_DEV, mfc="white")]
    entries += [entry("ours, train", TRAIN), entry("published, train", PUBLISHED_TRAIN)]
    across = min(_ACROSS, len(spec.tables))
    bands = -(-len(spec.tables) // across)
    figure, grid = panel_grid(2 * bands, across, 1.2, entries)
    shown = set()
    for number, table in enumerate(spec.tables):
        band, column = divmod(number, across)
        above, below = grid[2 * band][column], grid[2 * band + 1][column]
        shown |= _table(above, below, table, read[table.title])
        if column == 0:
            above.set_ylabel("Training loss")
            below.set_ylabel("Score")
    for axes in (axes for row in grid for axes in row if not axes.has_data()):
        axes.set_axis_off()
    figure.suptitle(spec.title)
    counts = [len(runs) for runs in read.values() if runs]
    notes = [f"Scores: {', '.join(f'{TITLES[task]}' for task in TASKS if task in shown)}."]
    if "train score" not in shown:
        notes.append("Our runs recorded no scores on train.")
    notes += [lines_notes(counts)] if counts else []
    return figure, [*notes, *_absent(spec, inputs, read)]


def _files(spec: Spec, inputs: Inputs, table: Table) -> Mapping[int, Path]:
    if table.variant not in spec.variants:
        raise UserError(
            f"figure 'epoch-tables', table '{table.title}': variant '{table.variant}' is not among "
            f"the figure's variants.{nearest(table.variant, spec.variants)}"
        )
    stages = inputs.stage_histories.get(table.variant, {})
    if table.stage not in stages:
        raise UserError(
            f"figure 'epoch-tables', table '{table.title}': variant '{table.variant}' has no stage "
            f"'{table.stage}', only {', '.join(stages)}.{nearest(table.stage, stages)}"
        )
    if table.task not in TASKS:
        raise UserError(
            f"figure 'epoch-tables', table '{table.title}': unknown task '{table.task}'."
            f"{nearest(table.task, TASKS)}"
        )
    return stages[table.stage]


def _table(above: Axes, below: Axes, table: Table, runs: Sequence[History]) -> set[str]:
    """Draw a table; return its task, and `train score` where our runs have one."""
    metric = TASKS[table.task].metric
    shown = {table.task}
    for axes, values, look, face in (
        (above, table.loss, PUBLISHED_TRAIN, None),
        (below, table.train, PUBLISHED_TRAIN, None),
        (below, table.dev, PUBLISHED_DEV, "white"),
    ):
        line = {"color": look.color, "linestyle": look.linestyle, "marker": look.marker}
        if values:
            epochs = range(1, len(values) + 1)
            axes.plot(epochs, values, **line, markerfacecolor=face, markersize=2.5, linewidth=0.9)
    for axes, of, look in (
        (above, Of("train", table.task, "loss"), TRAIN),
        (below, Of("train", table.task, metric), TRAIN),
        (below, Of("dev", table.task, metric), DEV),
    ):
        curve = curve_of(runs, of) if runs else None
        if curve is not None:
            smooth = 1.0 if of.metric == "loss" else 0.0
            draw_curve(axes, curve, "", look, smooth, faint=False)
            shown |= {"train score"} if axes is below and look is TRAIN else set()
    printed = max(len(table.loss), len(table.train), len(table.dev))
    for axes in (above, below):
        epoch_axis(axes, max([printed, *([longest(runs)] if runs else [])]) or 1)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    if not above.has_data() and not below.has_data():
        below.text(0.5, 0.5, "no run yet", transform=below.transAxes, ha="center", color="0.4")
        below.plot([], [])
    above.set_title(style.shorten(table.title, 24), fontsize=7.5)
    below.set_xlabel("Epoch")
    return shown


def _absent(spec: Spec, inputs: Inputs, read: Mapping[str, Sequence[History]]) -> list[str]:
    """Name the tables without our curves, by table: a variant may have some of its stages."""
    files = {table.title: _files(spec, inputs, table) for table in spec.tables}
    there = {title: present(of) for title, of in files.items()}
    failed = {table.title for table in spec.tables if table.variant in inputs.failed}
    labels = {title: title for title in read}
    return absent_notes(labels, there, files, failed)
