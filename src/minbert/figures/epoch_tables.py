"""A paper's tables of losses and scores by epoch, as curves, with ours."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pydantic import BaseModel, ConfigDict, Field

from minbert.base.errors import UserError, nearest
from minbert.figures import curves, style
from minbert.figures.curves import Of
from minbert.figures.inputs import Drawn, Inputs, OfSeeds, VariantsSpec, missing_notes
from minbert.figures.scored import TITLES
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
    """Two panels per table, with the histories of our stages: training loss above, scores below."""

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
        across = min(_ACROSS, len(self.tables))
        bands = -(-len(self.tables) // across)
        figure, grid = style.panel_grid(2 * bands, across, 1.2, entries)
        trained = False
        for number, table in enumerate(self.tables):
            band, column = divmod(number, across)
            above, below = grid[2 * band][column], grid[2 * band + 1][column]
            trained |= _draw(above, below, table, read[table.title])
            if column == 0:
                above.set_ylabel("Training loss")
                below.set_ylabel("Score")
        style.hide_empty(grid)
        shown = {table.task for table in self.tables}
        notes = [f"Scores: {', '.join(TITLES[task] for task in TASKS if task in shown)}."]
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
                f"{', '.join(stages)}.{nearest(table.stage, stages)}"
            )
        if table.task not in TASKS:
            raise UserError(f"{said}: unknown task '{table.task}'.{nearest(table.task, TASKS)}")
        return stages[table.stage]


def _draw(above: Axes, below: Axes, table: Table, runs: Sequence[curves.History]) -> bool:
    """Draw a table; return whether our runs have its scores on train."""
    metric = TASKS[table.task].metric
    trained = Of("train", table.task, metric)
    for axes, values, look, face in (
        (above, table.loss, PUBLISHED_TRAIN, None),
        (below, table.train, PUBLISHED_TRAIN, None),
        (below, table.dev, PUBLISHED_DEV, "white"),
    ):
        if values:
            about = {**look._asdict(), "markerfacecolor": face, "markersize": 2.5}
            axes.plot(range(1, len(values) + 1), values, **about, linewidth=0.9)
    for axes, of, look, smooth in (
        (above, Of("train", table.task, "loss"), TRAIN, 1.0),
        (below, trained, TRAIN, 0.0),
        (below, Of("dev", table.task, metric), DEV, 0.0),
    ):
        curves.draw_curve(axes, curves.curve_of(runs, of), look, smooth, faint=False)
    printed = max(len(table.loss), len(table.train), len(table.dev))
    for axes in (above, below):
        curves.epoch_axis(axes, max(printed, curves.longest(runs) if runs else 0) or 1)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    if not above.has_data() and not below.has_data():
        style.say(below)
        below.plot([], [])
    above.set_title(style.shorten(table.title, 24), fontsize=7.5)
    below.set_xlabel("Epoch")
    return any(trained in run.rows for run in runs)
