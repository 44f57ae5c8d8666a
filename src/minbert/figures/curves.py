"""Curves over epochs: losses, scores, single runs, a paper's tables by epoch, cosines."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from minbert.base.errors import UserError
from minbert.figures import style
from minbert.figures.cosines import plot_cosines
from minbert.figures.epoch_tables import plot_tables
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
    read_history,
)
from minbert.figures.inputs import Drawn, Inputs, task_title
from minbert.figures.panels import DEV, THIN, TRAIN, Line, Panel, draw, lines_note, smoothed_note
from minbert.figures.scored import (
    FLOOR,
    PaperScores,
    measure_of,
    paper_scores,
    several_floors,
    title_of,
    unlearned_note,
)
from minbert.spec.figures import Curves
from minbert.spec.task import TASKS, overall_tasks


def plot(options: Curves, inputs: Inputs) -> Drawn:
    """Draw what `options.show` says."""
    if options.show == "tables":
        return plot_tables(options.tables, inputs)
    found, absent = last_stages(inputs)
    if not found:
        return style.nothing(), absent
    views = {"loss": _loss, "scores": _scores, "runs": _runs, "cosines": plot_cosines}
    figure, notes = views[options.show](options, inputs, found)
    return figure, [*notes, *absent]


def draw_run(history: Path, title: str, rule: str, target: Path) -> None:
    """Draw the run of `history` (parquet) as PNG `target`; `rule` names its overall score.

    For its page in MLflow: training loss, smoothed over half an epoch, and dev scores.
    """
    run = read_history(history)
    metrics = {name: task.metric for name, task in TASKS.items()} | {"overall": rule}
    looks = {task: style.look(n) for n, task in enumerate(metrics)}
    losses = [of for of in run.rows if (of.split, of.metric) == ("train", "loss")]
    scores = [of for of in (Of("dev", *each) for each in metrics.items()) if of in run.rows]
    smoothed = {"window": 0.5, "faint": False}
    loss = [Line(curve_of([run], of), looks[of.task], smoothed) for of in losses]
    score = [Line(curve_of([run], of), looks[of.task]) for of in scores]
    shown = {of.task for of in (*losses, *scores)}
    entries = [style.entry(task_title(task), look) for task, look in looks.items() if task in shown]
    with style.style():
        figure = draw(
            [[Panel("", loss, "train loss"), Panel("", score, "dev score", 1)]], entries, 2.2
        )
        notes = ["Losses: running mean over half an epoch, with penalties and dropout."]
        style.finish(figure, notes, f"overall: {rule}", style.shorten(title, 80))
        figure.savefig(target, format="png", dpi=150, metadata={"Software": None})


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
    ends = {name: by_epoch(of).values[:, -1].mean() for name, of in drawn.items()}
    named = [f"{inputs.variants[name]} ({end:#.3g})" for name, end in ends.items()]
    entries = [style.entry(label, line.look) for label, line in zip(named, lines, strict=True)]
    figure = draw([[Panel("", lines, f"{options.ylabel} (log scale)")]], entries, 2.0)
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
            plain, thin = style.Look(looks[name].color), THIN | {"band": False}
            lines.append(Line(curve_of(runs, Of("train", *measure)), plain, thin))
        lowest = paper.floors(found, measure_of(*measure))
        panels.append(Panel("", lines, title_of(measure[0]), 1, lowest))
    rows = [panels[n : n + 2] for n in range(0, len(panels), 2)]
    figure = draw(rows, entries, 1.75)
    more = "; thin, without bands: on the training batches, during training" * trained
    return figure, [
        f"Dev scores after each epoch{more}. {FLOOR}",
        several_floors(panel.floors for panel in panels),
        lines_note(map(len, found.values())),
        unlearned_note((of for of in paper.flat if of.variant in found), inputs.variants),
    ]


class Run(NamedTuple):
    """What is drawn of a variant: lines of its loss, and of the score of `task`, train and dev."""

    task: str
    loss: list[Line]
    score: list[Line]


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
        shown = "overall score" if run.task == "overall" else title_of(run.task)
        head = f"{label * bool(options.pairs)}\n{shown}"
        at = paper.floors([name], measure_of(run.task, paper.rule))
        return [
            Panel(f"{label}\nloss", run.loss, scale=scales[0]),
            Panel(head, run.score, first=1, floors=at, scale=scales[1]),
        ]

    if options.pairs:
        made = [[panels(v, (f"loss {p}", f"score {p}")) for v in p] for p in options.pairs]
        rows = [[*chain(*zip(*pair, strict=True))] for pair in made]
    else:
        each = [panels(name, (None, "score")) for name in runs]
        rows = [[*chain(*each[n : n + 3])] for n in range(0, len(each), 3)]
    below = sorted(
        of
        for of in paper.flat
        if of.variant in runs and runs[of.variant].task in ("overall", of.measure)
    )
    whole = any(run.task == "overall" for run in runs.values())
    trained = any(run.score[0].curve for run in runs.values())
    return draw(rows, [style.entry("train", TRAIN), style.entry("dev", DEV)], 1.15), [
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
    return Run(
        task,
        [Line(trained, TRAIN, {"window": 0.5, "faint": False}), Line(tested, DEV)],
        [
            Line(curve_of(histories, Of(split, task, metric)), look)
            for split, look in (("train", TRAIN), ("dev", DEV))
        ],
    )
