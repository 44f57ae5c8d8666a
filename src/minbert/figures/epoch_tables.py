"""A paper's tables of losses and scores by epoch, as curves, with ours."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from pydantic import BaseModel, ConfigDict, Field

from minbert.base.errors import UserError, did_you_mean
from minbert.evaluate import reading
from minbert.figures import curves, style
from minbert.figures.curves import Of
from minbert.figures.inputs import Drawn, Inputs, OfSeeds, VariantsSpec, listed, missing_notes
from minbert.figures.scored import FLOOR, paper_floors, title_of
from minbert.spec.task import TASKS

_ACROSS = 4
DEV, TRAIN = style.LOOKS[0], style.LOOKS[4]
PUBLISHED_DEV = style.Look("0.45", style.DOTS, "o")
PUBLISHED_TRAIN = style.Look("0.45", style.DOTS, "v")


class Table(BaseModel):
    """One table: our stage, and what the paper printed for each epoch (empty: not printed)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    variant: str
    stage: str
    task: str
    loss: tuple[float, ...] = ()
    train: tuple[float, ...] = ()
    dev: tuple[float, ...] = ()


class Spec(VariantsSpec):
    """Two panels per table, with the histories of our stages: training loss above, scores below.

    A loss is the mean of an epoch, divided by that of the first: papers do not say how they scale
    theirs.
    """

    tables: tuple[Table, ...] = Field(min_length=1)

    def plot(self, inputs: Inputs) -> Drawn:
        files = {table.title: self._files(inputs, table) for table in self.tables}
        read = {title: curves.read_histories(of_seeds) for title, of_seeds in files.items()}
        entries = [
            style.entry("ours, dev", DEV),
            style.entry("published, dev", PUBLISHED_DEV, mfc="white"),
            style.entry("ours, train", TRAIN),
            style.entry("published, train", PUBLISHED_TRAIN),
        ]
        floors, flat = paper_floors(inputs)
        if floors:
            entries.append(Line2D([], [], label="floor", **style.FLOOR))
        across = min(_ACROSS, len(self.tables))
        bands = -(-len(self.tables) // across)
        figure, grid = style.panel_grid(2 * bands, across, 1.2, entries)
        trained = False
        for number, table in enumerate(self.tables):
            band, column = divmod(number, across)
            above, below = grid[2 * band][column], grid[2 * band + 1][column]
            trained |= _draw(above, below, table, read[table.title])
            floor = floors.get(reading.Of(table.variant, "dev", table.task))
            if floor is not None and below.has_data():
                below.axhline(floor, **style.FLOOR)
            if column == 0:
                above.set_ylabel("Training loss,\nrelative")
                below.set_ylabel("Score")
        style.hide_empty(grid)
        shown = {table.task for table in self.tables}
        notes = [
            "Training loss: the mean of each epoch divided by the first epoch's, as the paper does "
            "not say how it scales its losses; ours is with dropout.",
            f"Scores: {', '.join(title_of(task) for task in TASKS if task in shown)}.",
            *_epochs_note(self.tables, read),
        ]
        notes += [FLOOR] if floors else []
        low = [t.title for t in self.tables if (t.variant, "dev", t.task) in flat]
        if low:
            notes.append(f"Ours is not above the floor at the 5 % level: {listed(low)}.")
        if not trained:
            notes.append("Our runs recorded no scores on train.")
        if counts := [len(runs) for runs in read.values() if runs]:
            notes.append(curves.lines_note(counts))
        # By table: a variant may have only some of its stages.
        failed = {table.title for table in self.tables if table.variant in inputs.failed}
        return figure, [*notes, *missing_notes({t: t for t in files}, files, failed)]

    def _files(self, inputs: Inputs, table: Table) -> OfSeeds:
        where = f"table '{table.title}'"
        self.check_variants([table.variant], where)
        stages = inputs.stage_histories.get(table.variant, {})
        said = f"figure '{self.title}', {where}"
        if table.stage not in stages:
            raise UserError(
                f"{said}: variant '{table.variant}' has no stage '{table.stage}', only "
                f"{', '.join(stages)}.{did_you_mean(table.stage, stages)}"
            )
        if table.task not in TASKS:
            raise UserError(
                f"{said}: unknown task '{table.task}'.{did_you_mean(table.task, TASKS)}"
            )
        return stages[table.stage]


def _epochs_note(
    tables: Sequence[Table], read: Mapping[str, Sequence[curves.History]]
) -> list[str]:
    """Return the note on runs of ours that are shorter than the paper's."""
    lengths: dict[str, list[str]] = {}
    for table in tables:
        ours = round(curves.longest(read[table.title])) if read[table.title] else 0
        if 0 < ours < (printed := _printed(table)):
            lengths.setdefault(f"{ours} of the paper's {printed} epochs", []).append(table.title)
    said = [f"{length} ({listed(titles)})" for length, titles in lengths.items()]
    return [f"Ours ran for {'; '.join(said)}."] if said else []


def _printed(table: Table) -> int:
    return max(len(table.loss), len(table.train), len(table.dev))


def by_epoch(curve: curves.Curve | None) -> curves.Curve | None:
    """Return the mean of each epoch, divided by that of the first."""
    if curve is None:
        return None
    ends = np.ceil(curve.epochs - 1e-9)
    epochs = np.unique(ends)
    means = np.stack([curve.values[:, ends == end].mean(axis=1) for end in epochs], axis=1)
    return curves.Curve(epochs, means / means[:, :1])


def _draw(above: Axes, below: Axes, table: Table, runs: Sequence[curves.History]) -> bool:
    """Draw a table; return whether our runs have its scores on train."""
    metric = TASKS[table.task].metric
    trained = Of("train", table.task, metric)
    relative = [loss / table.loss[0] for loss in table.loss]
    for axes, values, look, face in (
        (above, relative, PUBLISHED_TRAIN, None),
        (below, table.train, PUBLISHED_TRAIN, None),
        (below, table.dev, PUBLISHED_DEV, "white"),
    ):
        if values:
            about = {**look._asdict(), "markerfacecolor": face, "markersize": 2.5}
            axes.plot(range(1, len(values) + 1), values, **about, linewidth=0.9, clip_on=False)
    for axes, ours, look in (
        (above, by_epoch(curves.curve_of(runs, Of("train", table.task, "loss"))), TRAIN),
        (below, curves.curve_of(runs, trained), TRAIN),
        (below, curves.curve_of(runs, Of("dev", table.task, metric)), DEV),
    ):
        curves.draw_curve(axes, ours, look, faint=False)
    for axes in (above, below):
        last = max(_printed(table), curves.longest(runs) if runs else 0) or 1
        curves.epoch_axis(axes, last, first=1)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    if not above.has_data() and not below.has_data():
        style.say(below)
        below.plot([], [])
    above.set_title(style.shorten(table.title, 24), fontsize=7.5)
    below.set_xlabel("Epoch")
    return any(trained in run.rows for run in runs)
