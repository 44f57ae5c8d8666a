"""Curves over epochs: losses, scores, single runs, a paper's tables by epoch, cosines."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, product, zip_longest
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from minbert.base.errors import UserError, did_you_mean
from minbert.figures import histories, style
from minbert.figures.inputs import Drawn, Inputs, OfSeeds, mean_of, missing_notes, task_title
from minbert.figures.scored import (
    FLOOR,
    PaperScores,
    measure_of,
    title_of,
)
from minbert.spec.figures import Curves, Table
from minbert.spec.task import TASKS, overall_tasks

DEV, TRAIN = style.LOOKS[:2]
_CROSS = "\u00d7: not above it at the 5 % level."

Runs = dict[str, histories.Curves]
"""What the runs of each variant recorded."""


def curves(options: Curves, inputs: Inputs) -> Drawn:
    """Draw what `options.show` says."""
    if options.show == "tables":
        return _tables(options, inputs)
    found, absent = histories.last_stages(inputs)
    if not found:
        return style.nothing(), absent
    views = {"loss": _loss, "scores": _scores, "runs": _runs, "cosines": _cosines}
    figure, notes = views[options.show](options, inputs, found)
    return figure, [*notes, *absent]


def _line(
    axes: Axes,
    curve: pd.DataFrame | None,
    look: style.Look,
    label: str = "",
    window: float = 0.0,
    faint: bool = False,
) -> None:
    """Draw the mean of a curve over seeds, and a band from the smallest to the largest.

    Both are running means over some `window` of epochs; a `faint` line also has the mean as it was
    logged. A line without a `label` is thin, with neither marker nor band.
    """
    if curve is None:
        return
    color, curve = look["color"], curve.dropna()
    if faint:
        axes.plot(curve.mean(axis=1), color=color, linewidth=0.4, alpha=0.25, zorder=1)
    around = round(window * len(curve) / curve.index[-1]) if window else 1
    smooth = curve.rolling(max(1, around), center=True, min_periods=1).mean()
    mean = smooth.mean(axis=1)
    if not label:
        axes.plot(mean, color=color, linewidth=0.6, zorder=2)
        return
    ends = smooth.min(axis=1), smooth.max(axis=1)
    axes.fill_between(mean.index, *ends, color=color, alpha=0.2, linewidth=0, zorder=2)
    axes.plot(mean, **look, label=label, markevery=max(1, len(mean) // 8), zorder=3)


def _over_epochs(panels: Sequence[Axes], columns: int) -> None:
    """Label the x axes of panels in so many columns."""
    for axes in panels:
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
        axes.locator_params(axis="y", nbins=5)
    for axes in panels[-columns:]:
        axes.set_xlabel("Epoch")


def _floors(axes: Axes, paper: PaperScores, names: Iterable[str], *of: str) -> str:
    """Draw the floors of a task and metric; return its title, crossed if a variant is not above."""
    measure = measure_of(*of)
    for floor in paper.floors(names, measure):
        axes.axhline(floor, **style.FLOOR)
    found = [one for name in names if (one := paper.get(name, measure))]
    return "\u00d7 " * any(one.learned is False for one in found) + title_of(of[0])


def _lines_note(found: Runs, smoothed: str = "") -> str:
    line = mean_of(histories.seeds_of(found))
    return f"Lines: {line}{smoothed}.{' Bands: smallest to largest seed.' * (line != '1 seed')}"


def _window(options: Curves, found: Runs) -> tuple[float, str]:
    """Return the epochs that lines are smoothed over, and words for that."""
    every = chain(*(recorded.values() for recorded in found.values()))
    window = options.smooth * max(curve.index[-1] for curve in every)
    return window, f", running mean over {window:.2g} epochs (faint: as logged)" * bool(window)


def _loss(options: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """A line per variant on a logarithmic axis, and its mean over the last epoch."""
    window, smoothed = _window(options, found)
    figure, (axes,) = style.panels(1, 2.0)
    for n, (name, recorded) in enumerate(found.items()):
        curve = recorded.get(("train", options.task, "loss"))
        if curve is None:
            raise UserError(
                f"figure 'curves': variant '{name}' has no training loss of task '{options.task}'"
            )
        last = curve[curve.index > curve.index[-1] - 1].mean().mean()
        label = f"{inputs.variants[name]} ({last:#.3g})"
        _line(axes, curve, style.look(n), label, window, faint=True)
    _over_epochs([axes], 1)
    axes.set(ylabel=f"{options.ylabel} (log scale)", yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    return figure, [f"{_lines_note(found, smoothed)} In brackets: mean of the last epoch."]


def _scores(_: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """A panel for the overall score and each task, a line per variant; train is thin."""
    measures, paper = histories.dev_measures(inputs, found), PaperScores(inputs)
    figure, panels = style.panels(len(measures), 1.75, 2)
    for axes, of in zip(panels, measures, strict=True):
        for n, (name, recorded) in enumerate(found.items()):
            _line(axes, recorded.get(("dev", *of)), style.look(n), inputs.variants[name])
            _line(axes, recorded.get(("train", *of)), style.look(n))
        _floors(axes, paper, found, *of)
        axes.set_ylabel(title_of(of[0]))
    panels[0].plot([], [], **style.THIN, label="on train")
    _over_epochs(panels, 2)
    return figure, [
        "Dev scores after each epoch; thin, without bands: on the training batches, during "
        f"training. {FLOOR}",
        _lines_note(found),
    ]


def _runs(options: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """Loss and score of each variant's last stage, or of pairs of variants on one scale."""
    paper = PaperScores(inputs)
    names, columns = ([*chain(*options.pairs)], 4) if options.pairs else ([*found], 6)
    figure, panels = style.panels(2 * len(names), 1.15, columns, dense=True)
    for n, (name, loss, score) in enumerate(zip(names, panels[::2], panels[1::2], strict=True)):
        if n:
            score.sharey(panels[1])
        if n % 2 and options.pairs:
            loss.sharey(panels[2 * n - 2])
        loss.set_title(f"{style.shorten(inputs.variants[name], 132 // columns)}\nloss")
        score.set_title("no run")
        if name in found:
            spec = inputs.about["stages"][name][-1]["spec"]
            score.set_title(_run(loss, score, name, found[name], spec, paper))
    _over_epochs(panels, columns)
    return figure, [
        f"Overall: {paper.overall}.",
        "Loss: per training step, all its tasks combined; on train a running mean over half an "
        "epoch, with penalties and dropout; on dev without either. The squared error of numbers "
        "counts an offset of all predictions, which r ignores: so the dev loss may be twice "
        "the train loss while the scores agree.",
        f"Scores on train: on the training batches, during training. {FLOOR} {_CROSS}",
        _lines_note(found),
    ]


def _run(
    loss: Axes,
    score: Axes,
    name: str,
    recorded: histories.Curves,
    spec: Mapping[str, Any],
    paper: PaperScores,
) -> str:
    """Draw a variant's loss and score on train and dev, and return the score's title."""
    weights = {task: of["weight"] for task, of in spec["tasks"].items() if of["trained"]}
    # The history has the overall score of what the stage trains.
    whole = set(overall_tasks(weights)) == set(paper.overall_tasks) <= weights.keys()
    first = next(iter(weights))
    of = ("overall", paper.rule) if whole else (first, TASKS[first].metric)
    # The tasks' dev losses, added up like those of a training step.
    losses = [weight * recorded["dev", task, "loss"] for task, weight in weights.items()]
    dev = sum(losses[1:], losses[0]) / (len(losses) if spec["reduction"] == "mean" else 1)
    _line(loss, recorded["train", "overall", "loss"], TRAIN, "train", 0.5)
    _line(loss, dev, DEV, "dev")
    for split, look in (("train", TRAIN), ("dev", DEV)):
        _line(score, recorded.get((split, *of)), look, split)
    return _floors(score, paper, [name], *of)


def _tables(options: Curves, inputs: Inputs) -> Drawn:
    """Two panels per table: losses of epochs, divided by the first epoch's, and scores."""
    tables, paper = options.tables, PaperScores(inputs)
    files = {table.title: _files(inputs, table) for table in tables}
    found = {title: histories.read_histories(of_seeds) for title, of_seeds in files.items()}
    figure, panels = style.panels(2 * len(tables), 1.2, 4, dense=True)
    for table, loss, score in zip(tables, panels[::2], panels[1::2], strict=True):
        recorded, of = found[table.title], (table.task, TASKS[table.task].metric)
        if recorded:
            curve = recorded["train", table.task, "loss"]
            means = curve.groupby(np.ceil(curve.index - 1e-9)).mean()
            _line(loss, means / means.iloc[0], TRAIN, "ours, train")
        _printed(loss, "train", [value / table.loss[0] for value in table.loss])
        for split, look, values in (("train", TRAIN, table.train), ("dev", DEV, table.dev)):
            _line(score, recorded.get((split, *of)), look, f"ours, {split}")
            _printed(score, split, values)
        loss.set_title(f"{style.shorten(table.title, 30)}\ntraining loss, relative")
        score.set_title(_floors(score, paper, [table.variant], *of))
    _over_epochs(panels, 4)
    # By table: a variant may have only some of its stages.
    failed = {table.title for table in tables if table.variant in inputs.failed}
    return figure, [
        "Training loss: the mean of each epoch divided by the first epoch's, as the paper does "
        f"not say how it scales its losses; ours is with dropout. {FLOOR} {_CROSS}",
        _lines_note(found) * any(found.values()),
        *missing_notes({title: title for title in files}, files, failed),
    ]


def _printed(axes: Axes, split: str, values: Sequence[float]) -> None:
    """Draw what a paper printed for each epoch."""
    look: style.Look = {"color": "0.45", "linestyle": ":", "marker": "o" if split == "dev" else "v"}
    axes.plot(range(1, len(values) + 1), values, **look, label=f"published, {split}")


def _files(inputs: Inputs, table: Table) -> OfSeeds:
    """Return the histories of a table's stage; a stage or task that there is not is an error."""
    stages = inputs.histories[table.variant]
    for what, name, known in (("stage", table.stage, stages), ("task", table.task, TASKS)):
        if name not in known:
            raise UserError(
                f"figure 'curves', table '{table.title}': variant '{table.variant}' has no {what} "
                f"'{name}', only {', '.join(known)}.{did_you_mean(name, known)}"
            )
    return stages[table.stage]


PAIR, BEFORE, AFTER = "gradient_cosine", "sum_cosine", "update_cosine"  # metrics
_BY_LAYER = "by layer"
_SHORT = {"embeddings": "E", "pooler": "P"}  # 24 layers have to fit side by side


def _cosines(options: Curves, inputs: Inputs, read: Runs) -> Drawn:
    """Cosines (Yu et al., 2020, section 2), a line per variant.

    First row: between two tasks' gradients of the shared parameters, before surgery. Second:
    between a task's gradient and the step's, before surgery (the plain sum) and after. Third: as
    the first, by group of layers.
    """
    found = {n: of for n, of in read.items() if any(metric == PAIR for *_, metric in of)}
    without = [inputs.variants[name] for name in read if name not in found]
    lacking = f"No gradient surgery, so no cosines: {', '.join(without)}." * bool(without)
    if not found:
        return style.nothing("no cosines"), [lacking]
    window, smoothed = _window(options, found)
    every = dict.fromkeys(of[1:] for recorded in found.values() for of in recorded)
    pairs, tasks = ([key for key, of in every if of == metric] for metric in (PAIR, AFTER))
    # In the order of the histories, which is that of the encoder.
    groups = [*dict.fromkeys(metric for _, metric in every if metric.startswith(f"{PAIR}/"))]
    names = [group.partition("/")[2] for group in groups]
    ticks = [_SHORT.get(name, name.rpartition("_")[2]) for name in names]
    for recorded, pair in product(found.values(), pairs):
        of_groups = [recorded.get(("train", pair, group)) for group in groups]
        means = {n: curve.mean() for n, curve in enumerate(of_groups) if curve is not None}
        recorded["train", pair, _BY_LAYER] = pd.DataFrame(means).T
    across = max(len(pairs), len(tasks))
    figure, panels = style.panels(3 * across, 1.6, across, sharey="row")
    for row, (keys, metric) in enumerate(((pairs, PAIR), (tasks, AFTER), (pairs, _BY_LAYER))):
        panels[row * across].set_ylabel("Cosine")
        for axes, key in zip_longest(panels[row * across :][:across], keys):
            if not key:
                axes.set_axis_off()
                continue
            axes.axhline(0, **style.ZERO)
            title = " and ".join([*map(task_title, key.split("-")), *["the step"] * (row == 1)])
            axes.set(title=title, xlabel=("", "Epoch", "Layer (E: embeddings, P: pooler)")[row])
            for n, (name, recorded) in enumerate(found.items()):
                curve, look = recorded.get(("train", key, metric)), style.look(n)
                smooth = window * (metric != _BY_LAYER)
                _line(axes, curve, look, inputs.variants[name], smooth, faint=metric == PAIR)
                if metric == AFTER:
                    _line(axes, recorded.get(("train", key, BEFORE)), look, "", window)
            if metric == _BY_LAYER:
                axes.set_xticks(range(len(ticks)), ticks)
    panels[0].plot([], [], **style.THIN, label="second row: before surgery")
    return figure, [
        "Cosines between gradients of the shared parameters. Second row: between a task's gradient "
        "and the actual step, after surgery; thin: and the plain sum, before surgery. Last row: "
        "mean over all of training, before surgery, by layer.",
        _lines_note(found, smoothed),
        lacking,
    ]
