"""Curves over epochs: losses, scores, single runs, a paper's tables by epoch, cosines."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from minbert.base.errors import UserError, did_you_mean
from minbert.figures import style
from minbert.figures.histories import (
    Curve,
    History,
    Of,
    Runs,
    by_epoch,
    curve_of,
    dev_measures,
    last_stages,
    longest,
    read_histories,
)
from minbert.figures.inputs import Drawn, Inputs, OfSeeds, listed, missing_notes, task_title
from minbert.figures.panels import DEV, TRAIN, Line, Panel, draw, lines_note, smoothed_note
from minbert.figures.scored import FLOOR, PaperScores, measure_of, title_of
from minbert.spec.figures import Curves, Table
from minbert.spec.task import TASKS, overall_tasks


def curves(options: Curves, inputs: Inputs) -> Drawn:
    """Draw what `options.show` says."""
    if options.show == "tables":
        return _tables(options, inputs)
    found, absent = last_stages(inputs)
    if not found:
        return style.nothing(), absent
    views = {"loss": _loss, "scores": _scores, "runs": _runs, "cosines": _cosines}
    figure, notes = views[options.show](options, inputs, found)
    return figure, [*notes, *absent]


def _loss(options: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """A line per variant on a logarithmic axis, and its mean over the last epoch."""
    of = Of("train", options.task, "loss")
    window = options.smooth * longest(chain(*found.values()))
    lines = []
    for n, (name, runs) in enumerate(found.items()):
        if (curve := curve_of(runs, of)) is None:
            raise UserError(f"{runs[0].path}: no training loss of task '{of.task}'")
        label = f"{inputs.variants[name]} ({by_epoch(curve).values[:, -1].mean():#.3g})"
        lines.append(Line(curve, style.look(n), label, window, faint=True))
    figure = draw([Panel("", lines, f"{options.ylabel} (log scale)")], 1, 2.0)
    axes = figure.axes[0]
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    said = smoothed_note(lines, window, "faint: as logged")
    return figure, [f"{said} In brackets: mean of the last epoch."]


def _scores(_: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """A line per variant, a panel per task and one for the overall score; train is thin."""
    measures = sorted(dev_measures(inputs, found), key=lambda of: of[0] == "overall")
    paper = PaperScores(inputs)
    panels: list[Panel] = []
    for measure in measures:
        lines = []
        for n, (name, runs) in enumerate(found.items()):
            look, label = style.look(n), inputs.variants[name]
            lines.append(Line(curve_of(runs, Of("dev", *measure)), look, label))
            lines.append(Line(curve_of(runs, Of("train", *measure)), look, thin=True))
        floors = paper.floors(found, measure_of(*measure))
        panels.append(Panel("", lines, title_of(measure[0]), floors))
    figure = draw(panels, 2, 1.75)
    figure.axes[0].plot([], [], **style.THIN, label="on train")
    return figure, [
        "Dev scores after each epoch; thin, without bands: on the training batches, during "
        f"training. {FLOOR}",
        lines_note(map(len, found.values())),
        paper.unlearned_note(inputs.variants),
    ]


class Run(NamedTuple):
    """What is drawn of a variant: lines of its loss, and of the score of `task`, train and dev."""

    task: str
    loss: list[Line]
    score: list[Line]


def _runs(options: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """Loss and score of each variant's last stage, or of pairs of variants on one scale."""
    paper = PaperScores(inputs)
    specs = {name: inputs.about["stages"][name][-1]["spec"] for name in found}
    runs = {name: _run(of, specs[name], paper) for name, of in found.items()}

    def panels(name: str, scale: Any) -> list[Panel]:
        label = inputs.variants[name]
        if name not in runs:
            return [Panel(label, ()), Panel(label, ())]
        task, loss, score = runs[name]
        head = f"{label * bool(scale)}\n{'overall score' if task == 'overall' else title_of(task)}"
        at = paper.floors([name], measure_of(task, paper.rule))
        scales = (f"loss {scale}", f"score {scale}") if scale else (None, "score")
        return [
            Panel(f"{label}\nloss", loss, scale=scales[0]),
            Panel(head, score, floors=at, scale=scales[1]),
        ]

    if options.pairs:
        # The losses of both beside each other, then the scores.
        made = [chain(*zip(*(panels(v, p) for v in p), strict=True)) for p in options.pairs]
    else:
        made = [chain(*(panels(name, None) for name in runs))]
    return draw([*chain(*made)], 4 if options.pairs else 6, 1.15), [
        f"Overall: {paper.overall}." * any(run.task == "overall" for run in runs.values()),
        "Loss: per training step, all its tasks combined; on train a running mean over half an "
        "epoch, with penalties and dropout; on dev without either. The squared error of numbers "
        "counts an offset of all predictions, which r ignores: so the dev loss may be twice "
        "the train loss while the scores agree.",
        "Scores on train: on the training batches, during training.",
        FLOOR,
        lines_note(map(len, found.values())),
        paper.unlearned_note(inputs.variants),
    ]


def _run(histories: Sequence[History], spec: Mapping[str, Any], paper: PaperScores) -> Run:
    weights = {name: of["weight"] for name, of in spec["tasks"].items() if of["trained"]}
    # The history has the overall score of what the stage trains.
    whole = set(paper.overall_tasks) <= set(weights)
    whole &= set(overall_tasks(weights)) == set(paper.overall_tasks)
    first = next(iter(weights))
    task, metric = ("overall", paper.rule) if whole else (first, TASKS[first].metric)
    trained = curve_of(histories, Of("train", "overall" if len(weights) > 1 else task, "loss"))
    # The tasks' dev losses, added up like those of a training step.
    parts = [curve_of(histories, Of("dev", task, "loss")) for task in weights]
    tested = None
    if there := [part for part in parts if part] if all(parts) else ():
        losses = np.stack([w * of.values for w, of in zip(weights.values(), there, strict=True)])
        combined = losses.mean(axis=0) if spec["reduction"] == "mean" else losses.sum(axis=0)
        tested = Curve(there[0].epochs, combined)
    scores = [curve_of(histories, Of(split, task, metric)) for split in ("train", "dev")]
    return Run(
        task,
        [Line(trained, TRAIN, "train", 0.5), Line(tested, DEV, "dev")],
        [Line(scores[0], TRAIN, "train"), Line(scores[1], DEV, "dev")],
    )


_ROW = 4  # tables side by side
_PRINTED = {
    of: {"color": "0.45", "linestyle": (0, (1, 1.2)), "marker": m}
    for of, m in (("train", "v"), ("dev", "o"))
}


def _tables(options: Curves, inputs: Inputs) -> Drawn:
    """Two panels per table: losses of epochs, divided by the first epoch's, and scores below."""
    tables = options.tables
    files = {table.title: _files(inputs, table) for table in tables}
    read = {title: read_histories(of_seeds) for title, of_seeds in files.items()}
    paper = PaperScores(inputs)
    panels: list[Panel | None] = [None] * (2 * _ROW * -(-len(tables) // _ROW))
    shorter: dict[str, list[str]] = {}
    for n, table in enumerate(tables):
        runs, metric = read[table.title], TASKS[table.task].metric
        losses = []
        if curve := curve_of(runs, Of("train", table.task, "loss")):
            epochs, means = by_epoch(curve)
            losses.append(Line(Curve(epochs, means / means[:, :1]), TRAIN, "ours, train"))
        losses.append(_published([loss / table.loss[0] for loss in table.loss], "train"))
        scores = [
            Line(curve_of(runs, Of(split, table.task, metric)), look, f"ours, {split}")
            for split, look in (("train", TRAIN), ("dev", DEV))
        ]
        scores += [_published(table.train, "train"), _published(table.dev, "dev")]
        at = 2 * n - n % _ROW
        panels[at] = Panel(table.title, losses, "Training loss,\nrelative")
        floors = paper.floors([table.variant], table.task)
        panels[at + _ROW] = Panel("", scores, "Score", floors)
        length = max(map(len, (table.loss, table.train, table.dev)))
        if runs and (of := round(longest(runs))) < length:
            shorter.setdefault(f"{of} of the paper's {length} epochs", []).append(table.title)
    said = "; ".join(f"{length} ({listed(of)})" for length, of in shorter.items())
    found = {table.title: paper.get(table.variant, table.task) for table in tables}
    low = [title for title, one in found.items() if one and one.learned is False]
    tasks = [title_of(task) for task in TASKS if any(table.task == task for table in tables)]
    counts = [len(runs) for runs in read.values() if runs]
    # By table: a variant may have only some of its stages.
    failed = {table.title for table in tables if table.variant in inputs.failed}
    return draw(panels, _ROW, 1.2), [
        "Training loss: the mean of each epoch divided by the first epoch's, as the paper does "
        "not say how it scales its losses; ours is with dropout.",
        f"Scores: {', '.join(tasks)}. {FLOOR}",
        f"Ours ran for {said}." * bool(said),
        f"Ours is not above the floor at the 5 % level: {listed(low)}." * bool(low),
        lines_note(counts) * bool(counts),
        *missing_notes({title: title for title in files}, files, failed),
    ]


def _published(values: Sequence[float], split: str) -> Line:
    """Return the line of what a paper printed for each epoch, if it did."""
    curve = Curve(np.arange(1.0, len(values) + 1), np.array([values])) if values else None
    return Line(curve, _PRINTED[split], f"published, {split}")


def _files(inputs: Inputs, table: Table) -> OfSeeds:
    """Return the histories of a table's stage; a stage or task that there is not is an error."""
    stages = inputs.histories.get(table.variant, {})
    for what, name, known in (("stage", table.stage, stages), ("task", table.task, TASKS)):
        if name not in known:
            raise UserError(
                f"figure 'curves', table '{table.title}': variant '{table.variant}' has no {what} "
                f"'{name}', only {', '.join(known)}.{did_you_mean(name, known)}"
            )
    return stages[table.stage]


PAIR, BEFORE, AFTER = "gradient_cosine", "sum_cosine", "update_cosine"  # metrics


def _cosines(options: Curves, inputs: Inputs, read: Runs) -> Drawn:
    """Cosines (Yu et al., 2020, section 2), a line per variant; rows without values are left out.

    First row: between two tasks' gradients of the shared parameters, before surgery. Second:
    between a task's gradient and the step's, before surgery (the plain sum) and after. Third: as
    the first, by group of layers.
    """
    found = {name: runs for name, runs in read.items() if _recorded(runs, PAIR)}
    without = [inputs.variants[name] for name in read if name not in found]
    lacking = [f"No gradient surgery, so no cosines: {', '.join(without)}."] if without else []
    if not found:
        return style.nothing("no cosines"), lacking
    every = [*chain(*found.values())]
    window = options.smooth * longest(every)
    metrics = dict.fromkeys(of.metric for run in every for of in run.rows)
    # In the order of the histories, which is that of the encoder.
    groups = [metric for metric in metrics if metric.startswith(f"{PAIR}/")]
    names = [metric.partition("/")[2] for metric in groups]
    short = {"embeddings": "E", "pooler": "P"}  # 24 layers have to fit side by side
    ticks = [short.get(name, name.rpartition("_")[2]) for name in names]

    def lines(task: str, metric: str, faint: bool = False, thin: bool = False) -> list[Line]:
        of = Of("train", task, metric)
        return [
            Line(curve_of(runs, of), style.look(n), inputs.variants[name], window, faint, thin)
            for n, (name, runs) in enumerate(found.items())
        ]

    def by_layer(pair: str, runs: Sequence[History]) -> Curve | None:
        curves = [curve_of(runs, Of("train", pair, group)) for group in groups]
        there = {n: of.values.mean(axis=1) for n, of in enumerate(curves) if of}
        return Curve(np.array([*there], float), np.array([*there.values()]).T) if there else None

    of_pairs = {p: " and ".join(map(task_title, p.split("-"))) for p in _recorded(every, PAIR)}
    pairs = [
        Panel(said, lines(pair, PAIR, faint=True), "Cosine", scale="pairs", zero=True)
        for pair, said in of_pairs.items()
    ]
    steps = [
        Panel(
            f"{task_title(task)} and the step",
            [*lines(task, AFTER), *lines(task, BEFORE, thin=True)],
            *("Cosine", (), "steps", True),
        )
        for task in _recorded(every, AFTER)
    ]
    layers = [
        Panel(
            said,
            [Line(by_layer(pair, of), style.look(n)) for n, of in enumerate(found.values())],
            *("Cosine by layer", (), "layers", True, ticks),
        )
        for pair, said in of_pairs.items()
        if groups
    ]
    rows = [row for row in (pairs, steps, layers) if row]
    across = max(map(len, rows))
    figure = draw([p for row in rows for p in (*row, *[None] * (across - len(row)))], across, 1.6)
    if steps:
        figure.axes[0].plot([], [], **style.THIN, label="second row: before surgery")
    about_steps = (
        " Second row: between a task's gradient and the actual step, after surgery; thin: and the "
        "plain sum, before surgery."
    )
    return figure, [
        "Cosines between gradients of the shared parameters." + about_steps * bool(steps),
        smoothed_note(pairs[0].lines, window, "faint in the first row: as logged"),
        "Last row: mean over all of training, before surgery, by layer." * bool(groups),
        *lacking,
    ]


def _recorded(runs: Iterable[History], metric: str) -> list[str]:
    """Return the tasks, or pairs of tasks, that the runs have rows of `metric` for."""
    return list(dict.fromkeys(of.task for run in runs for of in run.rows if of.metric == metric))
