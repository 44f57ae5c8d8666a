"""Curves over epochs: losses, scores, single runs, a paper's tables by epoch, cosines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from minbert.base.errors import UserError, did_you_mean
from minbert.evaluate import reading
from minbert.figures import style
from minbert.figures.histories import (
    Curve,
    History,
    Of,
    Runs,
    by_epoch,
    curve_of,
    dev_measures,
    is_smoothed,
    last_epoch,
    last_stages,
    longest,
    read_histories,
    read_history,
    running_mean,
)
from minbert.figures.inputs import Drawn, Inputs, OfSeeds, listed, mean_of, missing_notes
from minbert.figures.scored import (
    FLOOR,
    PaperScores,
    measure_of,
    paper_scores,
    several_floors,
    title_of,
    unlearned_note,
)
from minbert.spec.figures import Curves, Table
from minbert.spec.task import TASKS, overall_tasks

DEV, TRAIN = style.LOOKS[0], style.LOOKS[1]
_THIN: dict[str, Any] = {"linewidth": 0.6, "faint": False}
PAIR, BEFORE, AFTER = "gradient_cosine", "sum_cosine", "update_cosine"  # metrics
_TITLE = {6: 22, 4: 24}  # characters of a title, by panels in a row
_POINTS = 400  # of a line at most: more would only make the PDF large
_SPAN = 0.1  # of a cosine: a shorter axis would make differences that are noise look large


class Line(NamedTuple):
    """A line of a panel; `about` is for `draw_curve`."""

    curve: Curve | None
    look: style.Look
    about: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Panel:
    """Curves over epochs from `first` on, or over layers, if there are `ticks`.

    Panels of one `scale` have the same height of axes, at least `span`.
    """

    title: str
    lines: Sequence[Line]
    ylabel: str = ""
    first: int = 0
    floors: Sequence[float] = ()
    scale: Any = None
    span: float = 0.0
    ticks: Sequence[str] = ()

    @property
    def xlabel(self) -> str:
        """What the panel is over."""
        return "Layer (E: embeddings, P: pooler)" if self.ticks else "Epoch"


Rows = Sequence[Sequence[Panel]]


def plot(options: Curves, inputs: Inputs) -> Drawn:
    """Draw what `options.show` says."""
    if options.show == "tables":
        return _tables(options.tables, inputs)
    found, absent = last_stages(inputs)
    if not found:
        return style.nothing(), absent
    views = {"loss": _loss, "scores": _scores, "runs": _runs, "cosines": _cosines}
    figure, notes = views[options.show](options, inputs, found)
    return figure, [*notes, *absent]


def draw_run(history: Path, title: str, rule: str, target: Path) -> None:
    """Draw the run of `history` (parquet) as PNG `target`; `rule` names its overall score.

    For its page in MLflow: training loss, smoothed over half an epoch, and dev scores. A history
    without any row raises `UserError`.
    """
    run = read_history(history)
    metrics = {name: task.metric for name, task in TASKS.items()} | {"overall": rule}
    looks = {task: style.look(n) for n, task in enumerate(metrics)}
    losses = [of for of in run.rows if (of.split, of.metric) == ("train", "loss")]
    scores = [Of("dev", *of) for of in metrics.items()]
    about = {"window": 0.5, "faint": False}
    panels = [
        Panel(
            "", [Line(curve_of([run], of), looks[of.task], about) for of in losses], "train loss"
        ),
        Panel("", [Line(curve_of([run], of), looks[of.task]) for of in scores], "dev score", 1),
    ]
    shown = {of.task for of in (*losses, *scores) if of in run.rows}
    names = {name: TASKS[name].title if name in TASKS else name for name in looks if name in shown}
    with style.style():
        figure = draw([panels], [style.entry(of, looks[name]) for name, of in names.items()], 2.2)
        notes = ["Losses: running mean over half an epoch, with penalties and dropout."]
        style.finish(figure, notes, f"overall: {rule}", style.shorten(title, 80))
        figure.savefig(target, format="png", dpi=150, metadata={"Software": None})


def draw(rows: Rows, entries: Sequence[Any], height: float) -> Figure:
    """Return a figure of panels, each `height` inches high; empty ones only say so."""
    across = max(map(len, rows))
    width = style.column() if [*map(len, rows)] == [1] else style.wide()
    figure, grid = style.grid(len(rows), across, height, entries, width)
    size = 6.5 if across > 3 else 8
    used: dict[tuple[int, int], tuple[Axes, Panel]] = {}
    for n, row in enumerate(grid):
        for m, axes in enumerate(row):
            panel = rows[n][m] if m < len(rows[n]) else None
            if panel and any(line.curve for line in panel.lines):
                _draw_panel(axes, panel, size, _TITLE.get(across, 28))
                used[n, m] = axes, panel
            else:
                style.say(axes, panel.title and f"{panel.title}\nno run" if panel else "")
    for (n, m), (axes, panel) in used.items():
        below = used.get((n + 1, m))
        if below is None or below[1].xlabel != panel.xlabel:
            axes.set_xlabel(panel.xlabel, fontsize=size)
        alike = [other for other, of in used.values() if of.scale == panel.scale is not None]
        low, high = ([each.get_ylim()[end] for each in [axes, *alike]] for end in (0, 1))
        short = max(0.0, panel.span - (max(high) - min(low))) / 2
        axes.set_ylim(min(low) - short, max(high) + short)
    return figure


def _draw_panel(axes: Axes, panel: Panel, size: float, across: int) -> None:
    for line in panel.lines:
        if line.curve is not None:
            draw_curve(axes, line.curve, line.look, **line.about)
    for drawn in axes.lines if size < 8 else ():
        drawn.set(markersize=2.2, linewidth=min(1.0, drawn.get_linewidth()))
    for at in panel.floors:
        axes.axhline(at, **style.FLOOR, zorder=1)
    if panel.span:
        axes.axhline(0, **style.ZERO)
    head = [style.shorten(text, across) for text in panel.title.splitlines()]
    axes.set_title("\n".join(head), fontsize=size, loc="left" if size < 8 else "center")
    axes.set_ylabel(panel.ylabel, fontsize=size)
    axes.tick_params(labelsize=min(7, size - 0.5), pad=1.5)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks)
        return
    longest = max(line.curve.epochs[-1] for line in panel.lines if line.curve)
    room = 0.02 * (longest - panel.first) or 0.5
    axes.set_xlim(panel.first - room * (panel.first > 0), longest + room)
    bins = 3 if across < 24 else 6
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], nbins=bins))


def draw_curve(
    axes: Axes,
    curve: Curve,
    look: style.Look,
    window: float = 0.0,
    faint: bool = True,
    band: bool = True,
    **more: Any,
) -> None:
    """Draw mean and `band` over seeds, smoothed over `window` epochs, and `faint` the raw mean.

    `more` says how the line of the mean looks.
    """
    smooth = running_mean(curve.epochs, curve.values, window)
    if faint and is_smoothed(curve, window):
        raw = curve.values.mean(axis=0)
        axes.plot(curve.epochs, raw, color=look.color, linewidth=0.4, alpha=0.25, zorder=1)
    shown = np.unique(np.linspace(0, len(curve.epochs) - 1, _POINTS).round().astype(int))
    epochs, smooth = curve.epochs[shown], smooth[:, shown]
    if band and len(smooth) > 1:
        ends = smooth.min(axis=0), smooth.max(axis=0)
        axes.fill_between(epochs, *ends, color=look.color, alpha=0.2, linewidth=0, zorder=2)
    about: dict[str, Any] = {**look._asdict(), "markevery": max(1, len(shown) // 8), "zorder": 3}
    # Not clipped: the markers of the first and last epoch lie on the axes' edges.
    axes.plot(epochs, smooth.mean(axis=0), **{**about, **more}, clip_on=False)


def lines_note(counts: Iterable[int], smoothed: str = "") -> str:
    """Return the note on lines and bands over so many seeds."""
    line = mean_of(counts)
    band = "" if line == "1 seed" else " Bands: smallest to largest seed."
    return f"Lines: {line}{smoothed}.{band}"


def _smoothed_note(lines: Iterable[Line], window: float, where: str = "") -> str:
    """Return the note on lines smoothed over `window` epochs, if that smooths any."""
    curves = [line.curve for line in lines if line.curve]
    said = f", running mean over {window:.2g} epoch{'s' * (f'{window:.2g}' != '1')}"
    smoothed = any(is_smoothed(curve, window) for curve in curves)
    return lines_note(map(len, (of.values for of in curves)), f"{said} ({where})" * smoothed)


def _loss(options: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """A line per variant on a logarithmic axis, and its mean over the last epoch."""
    of = Of(options.split, options.task, options.metric)
    for run in chain(*found.values()):
        if of not in run.rows:
            raise UserError(
                f"{run.path}: no row of task '{of.task}', metric '{of.metric}', split '{of.split}';"
                " the figure's options name what the history does not have"
            )
    window = options.smooth * longest(chain(*found.values()))
    drawn = {name: curve for name, runs in found.items() if (curve := curve_of(runs, of))}
    lines = [Line(of, style.look(n), {"window": window}) for n, of in enumerate(drawn.values())]
    named = [f"{inputs.variants[name]} ({last_epoch(of):#.3g})" for name, of in drawn.items()]
    entries = [style.entry(label, line.look) for label, line in zip(named, lines, strict=True)]
    figure = draw([[Panel("", lines, f"{options.ylabel} (log scale)")]], entries, 2.0)
    axes = figure.axes[0]
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    said = _smoothed_note(lines, window, "faint: as logged")
    return figure, [f"{said} In brackets: mean of the last epoch."]


def _scores(_: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """A line per variant, a panel per task and one for the overall score; train is thin."""
    measures = sorted(dev_measures(inputs, found), key=lambda of: of[0] == "overall")
    looks = {name: style.look(n) for n, name in enumerate(found)}
    entries = [style.entry(inputs.variants[name], look) for name, look in looks.items()]
    trained = any(Of("train", *m) in run.rows for run in chain(*found.values()) for m in measures)
    if trained:
        entries.append(style.entry("on train", style.Look("0.4"), linewidth=0.6))
    paper = paper_scores(inputs)
    panels = []
    for measure in measures:
        lines = []
        for name, runs in found.items():
            lines.append(Line(curve_of(runs, Of("dev", *measure)), looks[name]))
            plain, thin = style.Look(looks[name].color), _THIN | {"band": False}
            lines.append(Line(curve_of(runs, Of("train", *measure)), plain, thin))
        lowest = paper.floors_of(found, measure_of(*measure))
        panels.append(Panel("", lines, title_of(measure[0]), 1, lowest))
    rows = [panels[n : n + 2] for n in range(0, len(panels), 2)]
    figure = draw(rows, entries + style.floor_entry(paper.floors), 1.75)
    more = "; thin, without bands: on the training batches, during training" * trained
    return figure, [
        f"Dev scores after each epoch{more}. {FLOOR}",
        several_floors(panel.floors for panel in panels),
        lines_note(map(len, found.values())),
        unlearned_note((of for of in paper.flat if of.variant in found), inputs.variants),
    ]


class Run(NamedTuple):
    """What is drawn of a variant: `loss` and the score of `task`, each on train and dev."""

    task: str
    metric: str
    loss: tuple[Curve | None, Curve | None]
    score: tuple[Curve | None, Curve | None]


def _runs(options: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """Loss and score of each variant's last stage, or of pairs of variants on one scale."""
    paper = paper_scores(inputs)
    specs = {name: inputs.facts["stages"][name][-1]["spec"] for name in found}
    runs = {name: _run(of, specs[name], paper) for name, of in found.items()}

    def panels(name: str, scales: tuple[Any, Any]) -> list[Panel]:
        label = inputs.variants[name]
        if name not in runs:
            return [Panel(label, ()), Panel(label, ())]
        run = runs[name]
        loss = zip(run.loss, (TRAIN, DEV), (0.5, 0.0), strict=True)
        lines = [Line(of, look, {"window": width, "faint": False}) for of, look, width in loss]
        scores = [Line(of, look) for of, look in zip(run.score, (TRAIN, DEV), strict=True)]
        floor = paper.floors.get(reading.Of(name, "dev", measure_of(run.task, run.metric)))
        shown = "overall score" if run.task == "overall" else title_of(run.task)
        head = f"{label * bool(options.pairs)}\n{shown}"
        at = [floor] if floor is not None else []
        return [
            Panel(f"{label}\nloss", lines, scale=scales[0]),
            Panel(head, scores, first=1, floors=at, scale=scales[1]),
        ]

    if options.pairs:
        made = [[panels(v, (f"loss {p}", f"score {p}")) for v in p] for p in options.pairs]
        rows = [[*chain(*zip(*pair, strict=True))] for pair in made]
    else:
        each = [panels(name, (None, "score")) for name in runs]
        rows = [[*chain(*each[n : n + 3])] for n in range(0, len(each), 3)]
    entries = [
        style.entry("train", TRAIN),
        style.entry("dev", DEV),
        *style.floor_entry(paper.floors),
    ]
    below = sorted(
        of
        for of in paper.flat
        if of.variant in runs and runs[of.variant].task in ("overall", of.measure)
    )
    whole = any(run.task == "overall" for run in runs.values())
    trained = any(run.score[0] for run in runs.values())
    return draw(rows, entries, 1.15), [
        f"Overall: {paper.overall}." * whole,
        "Loss: per training step, all its tasks combined; on train a running mean over half an "
        "epoch, with penalties and dropout; on dev without either. The squared error of numbers "
        "counts an offset of all predictions, which r ignores: so the dev loss may be twice "
        "the train loss while the scores agree.",
        "Scores on train: on the training batches, during training."
        if trained
        else "These runs recorded no scores on train.",
        FLOOR,
        lines_note(map(len, found.values())),
        unlearned_note(below, inputs.variants),
    ]


def _run(histories: Sequence[History], spec: Mapping[str, Any], paper: PaperScores) -> Run:
    weights = {name: of["weight"] for name, of in spec["tasks"].items() if of["trained"]}
    first = next(iter(weights))
    # The history has the overall score of what the stage trains.
    of_overall = set(paper.overall_tasks)
    whole = of_overall <= set(weights) and set(overall_tasks(weights)) == of_overall
    task, metric = ("overall", paper.rule) if whole else (first, TASKS[first].metric)
    total = "overall" if len(weights) > 1 else task
    train, dev = (curve_of(histories, Of(split, task, metric)) for split in ("train", "dev"))
    # The tasks' dev losses, added up like those of a training step.
    parts = [curve_of(histories, Of("dev", task, "loss")) for task in weights]
    tested = None
    if there := [part for part in parts if part] if all(parts) else ():
        losses = np.stack([w * of.values for w, of in zip(weights.values(), there, strict=True)])
        combined = losses.mean(axis=0) if spec["reduction"] == "mean" else losses.sum(axis=0)
        tested = Curve(there[0].epochs, combined)
    return Run(
        task, metric, (curve_of(histories, Of("train", total, "loss")), tested), (train, dev)
    )


def _tables(tables: Sequence[Table], inputs: Inputs) -> Drawn:
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
        losses = [Line(by_epoch(curve_of(runs, Of("train", table.task, "loss"))), TRAIN)]
        scores = [Line(curve_of(runs, Of(s, table.task, metric)), ours[s]) for s in ours]
        trained |= scores[0].curve is not None
        relative = [loss / table.loss[0] for loss in table.loss]
        losses += _published(relative, printed["train"])
        scores += _published(table.train, printed["train"])
        scores += _published(table.dev, printed["dev"])
        floor = paper.floors.get(reading.Of(table.variant, "dev", table.task))
        at = [floor] if floor is not None else []
        if first := n % 4 == 0:
            rows += [[], []]
        rows[-2].append(Panel(table.title, losses, "Training loss,\nrelative" * first, 1))
        rows[-1].append(Panel("", scores, "Score" * first, 1, at))
        length = max(map(len, (table.loss, table.train, table.dev)))
        if runs and (of := round(longest(runs))) < length:
            shorter.setdefault(f"{of} of the paper's {length} epochs", []).append(table.title)
    entries = [style.entry(f"ours, {split}", look) for split, look in ours.items()]
    entries += [style.entry(f"published, {split}", look) for split, look in printed.items()]
    said = "; ".join(f"{length} ({listed(of)})" for length, of in shorter.items())
    low = [table.title for table in tables if (table.variant, "dev", table.task) in paper.flat]
    tasks = [title_of(task) for task in TASKS if any(table.task == task for table in tables)]
    counts = [len(runs) for runs in read.values() if runs]
    # By table: a variant may have only some of its stages.
    failed = {table.title for table in tables if table.variant in inputs.failed}
    return draw(rows, entries + style.floor_entry(paper.floors), 1.2), [
        "Training loss: the mean of each epoch divided by the first epoch's, as the paper does "
        "not say how it scales its losses; ours is with dropout.",
        f"Scores: {', '.join(tasks)}.",
        f"Ours ran for {said}." * bool(said),
        FLOOR * bool(paper.floors),
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


def _cosines(options: Curves, inputs: Inputs, read: Runs) -> Drawn:
    """Cosines (Yu et al., 2020, section 2), a line per variant; rows without values are left out.

    First row: between two tasks' gradients of the shared parameters, before surgery. Second:
    between a task's gradient and the step's, before surgery (the plain sum) and after. Third: as
    the first, by group of layers.
    """
    found = {name: runs for name, runs in read.items() if _tasks(runs, PAIR)}
    without = [inputs.variants[name] for name in read if name not in found]
    lacking = [f"No gradient surgery, so no cosines: {', '.join(without)}."] if without else []
    if not found:
        return style.nothing("no cosines"), lacking
    every = [*chain(*found.values())]
    looks = {name: style.look(n) for n, name in enumerate(found)}
    window = options.smooth * longest(every)
    metrics = dict.fromkeys(of.metric for run in every for of in run.rows)
    # In the order of the histories, which is that of the encoder.
    groups = [metric for metric in metrics if metric.startswith(f"{PAIR}/")]
    names = [metric.partition("/")[2] for metric in groups]
    short = {"embeddings": "E", "pooler": "P"}  # 24 layers have to fit side by side
    ticks = [short.get(name, name.rpartition("_")[2]) for name in names]
    pairs: list[Panel] = []
    steps: list[Panel] = []
    layers: list[Panel] = []
    for pair in _tasks(every, PAIR):
        said = " and ".join(map(_said, pair.split("-")))
        lines, means = [], []
        for name, runs in found.items():
            lines.append(
                Line(curve_of(runs, Of("train", pair, PAIR)), looks[name], {"window": window})
            )
            of_groups = [curve_of(runs, Of("train", pair, group)) for group in groups]
            there = {n: of.values.mean(axis=1) for n, of in enumerate(of_groups) if of}
            if there:
                curve = Curve(np.array([*there], float), np.stack([*there.values()], axis=1))
                means.append(Line(curve, looks[name], {"markevery": 1}))
        pairs.append(Panel(said, lines, "Cosine" * (not pairs), scale="pairs", span=_SPAN))
        layer = "Cosine by layer" * (not layers)
        layers.append(Panel(said, means, layer, scale="layers", span=_SPAN, ticks=ticks))
    for task in _tasks(every, AFTER):
        lines = []
        for name, runs in found.items():
            of, about = Of("train", task, AFTER), {"window": window, "faint": False}
            lines.append(Line(curve_of(runs, of), looks[name], about))
            plain = style.Look(looks[name].color)
            lines.append(Line(curve_of(runs, of._replace(metric=BEFORE)), plain, about | _THIN))
        ylabel = "Cosine" * (not steps)
        steps.append(Panel(f"{_said(task)} and the step", lines, ylabel, scale="steps", span=_SPAN))
    entries = [style.entry(inputs.variants[name], look) for name, look in looks.items()]
    if steps:
        thin = style.entry("second row: before surgery", style.Look("0.4"), linewidth=0.6)
        entries.append(thin)
    rows = [row for row in (pairs, steps, layers * bool(groups)) if row]
    about_steps = (
        " Second row: between a task's gradient and the actual step, after surgery; thin: and the "
        "plain sum, before surgery."
    )
    drawn = [line for panel in pairs for line in panel.lines]
    return draw(rows, entries, 1.6), [
        "Cosines between gradients of the shared parameters." + about_steps * bool(steps),
        _smoothed_note(drawn, window, "faint in the first row: as logged"),
        "Last row: mean over all of training, before surgery, by layer." * bool(groups),
        *lacking,
    ]


def _tasks(runs: Iterable[History], metric: str) -> list[str]:
    """Return the tasks, or pairs of tasks, that the runs have rows of `metric` for."""
    return list(dict.fromkeys(of.task for run in runs for of in run.rows if of.metric == metric))


def _said(task: str) -> str:
    return TASKS[task].title if task in TASKS else task
