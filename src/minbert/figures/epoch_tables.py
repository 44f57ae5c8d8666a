"""What a paper printed for each epoch, beside our curves."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from minbert.base.errors import UserError, did_you_mean
from minbert.figures import style
from minbert.figures.histories import Curve, Of, by_epoch, curve_of, longest, read_histories
from minbert.figures.inputs import Drawn, Inputs, OfSeeds, listed, missing_notes
from minbert.figures.panels import DEV, TRAIN, Line, Panel, draw, lines_note
from minbert.figures.scored import FLOOR, paper_scores, title_of
from minbert.spec.figures import Table
from minbert.spec.task import TASKS


def plot_tables(tables: Sequence[Table], inputs: Inputs) -> Drawn:
    """Two panels per table: losses of epochs, divided by the first epoch's, and scores below."""
    ours = {"train": TRAIN, "dev": DEV}
    printed = {
        of: style.Look("0.45", style.DOTS, mark) for of, mark in (("train", "v"), ("dev", "o"))
    }
    files = {table.title: _files(inputs, table) for table in tables}
    read = {title: read_histories(of_seeds) for title, of_seeds in files.items()}
    paper = paper_scores(inputs)
    rows: list[list[Panel]] = []
    shorter: dict[str, list[str]] = {}
    trained = False
    for n, table in enumerate(tables):
        runs, metric = read[table.title], TASKS[table.task].metric
        losses = []
        if curve := curve_of(runs, Of("train", table.task, "loss")):
            epochs, means = by_epoch(curve)
            losses.append(Line(Curve(epochs, means / means[:, :1]), TRAIN))
        scores = [Line(curve_of(runs, Of(s, table.task, metric)), ours[s]) for s in ours]
        trained |= scores[0].curve is not None
        relative = [loss / table.loss[0] for loss in table.loss]
        losses += _published(relative, printed["train"])
        scores += _published(table.train, printed["train"])
        scores += _published(table.dev, printed["dev"])
        at = paper.floors([table.variant], table.task)
        if n % 4 == 0:
            rows += [[], []]
        rows[-2].append(Panel(table.title, losses, "Training loss,\nrelative", 1))
        rows[-1].append(Panel("", scores, "Score", 1, at))
        length = max(map(len, (table.loss, table.train, table.dev)))
        if runs and (of := round(longest(runs))) < length:
            shorter.setdefault(f"{of} of the paper's {length} epochs", []).append(table.title)
    entries = [style.entry(f"ours, {split}", look) for split, look in ours.items()]
    entries += [style.entry(f"published, {split}", look) for split, look in printed.items()]
    said = "; ".join(f"{length} ({listed(of)})" for length, of in shorter.items())
    low = [table.title for table in tables if paper.flat_one([table.variant], table.task)]
    tasks = [title_of(task) for task in TASKS if any(table.task == task for table in tables)]
    counts = [len(runs) for runs in read.values() if runs]
    # By table: a variant may have only some of its stages.
    failed = {table.title for table in tables if table.variant in inputs.failed}
    return draw(rows, entries, 1.2), [
        "Training loss: the mean of each epoch divided by the first epoch's, as the paper does "
        "not say how it scales its losses; ours is with dropout.",
        f"Scores: {', '.join(tasks)}.",
        f"Ours ran for {said}." * bool(said),
        FLOOR * any(panel.floors for panel in chain(*rows)),
        f"Ours is not above the floor at the 5 % level: {listed(low)}." * bool(low),
        "Our runs recorded no scores on train." * (not trained),
        lines_note(counts) * bool(counts),
        *missing_notes({title: title for title in files}, files, failed),
    ]


def _published(values: Sequence[float], look: style.Look) -> list[Line]:
    """Return the line of what a paper printed for each epoch; none if it printed nothing."""
    if not values:
        return []
    curve = Curve(np.arange(1.0, len(values) + 1), np.array([values]))
    return [Line(curve, look, {"linewidth": 0.9})]


def _files(inputs: Inputs, table: Table) -> OfSeeds:
    """Return the histories of a table's stage; a stage or task that there is not is an error."""
    stages = inputs.histories.get(table.variant, {})
    where = f"figure 'curves', table '{table.title}'"
    if table.stage not in stages:
        raise UserError(
            f"{where}: variant '{table.variant}' has no stage '{table.stage}', only "
            f"{', '.join(stages)}.{did_you_mean(table.stage, stages)}"
        )
    if table.task not in TASKS:
        raise UserError(f"{where}: unknown task '{table.task}'.{did_you_mean(table.task, TASKS)}")
    return stages[table.stage]
