"""Cosines between gradients, over epochs and by layer."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from minbert.figures import style
from minbert.figures.histories import Curve, History, Of, Runs, curve_of, longest
from minbert.figures.inputs import Drawn, Inputs, task_title
from minbert.figures.panels import THIN, Line, Panel, draw, smoothed_note
from minbert.spec.figures import Curves

PAIR, BEFORE, AFTER = "gradient_cosine", "sum_cosine", "update_cosine"  # metrics
_SPAN = 0.1  # of a cosine: a shorter axis would make differences that are noise look large


def plot_cosines(options: Curves, inputs: Inputs, read: Runs) -> Drawn:
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

    def lines(task: str, metric: str, **about: Any) -> list[Line]:
        of, about = Of("train", task, metric), about | {"window": window}
        return [Line(curve_of(runs, of), looks[name], about) for name, runs in found.items()]

    def by_layer(pair: str, runs: Sequence[History]) -> Curve | None:
        curves = [curve_of(runs, Of("train", pair, group)) for group in groups]
        there = {n: of.values.mean(axis=1) for n, of in enumerate(curves) if of}
        return Curve(np.array([*there], float), np.array([*there.values()]).T) if there else None

    def against_step(task: str) -> list[Line]:
        thin = [of._replace(look=style.Look(of.look.color)) for of in lines(task, BEFORE, **THIN)]
        return [*chain(*zip(lines(task, AFTER, faint=False), thin, strict=True))]

    of_pairs = {p: " and ".join(map(task_title, p.split("-"))) for p in _tasks(every, PAIR)}
    pairs = [
        Panel(said, lines(pair, PAIR), "Cosine", scale="pairs", span=_SPAN)
        for pair, said in of_pairs.items()
    ]
    steps = [
        Panel(
            f"{task_title(task)} and the step",
            against_step(task),
            "Cosine",
            scale="steps",
            span=_SPAN,
        )
        for task in _tasks(every, AFTER)
    ]
    layers = [
        Panel(
            said,
            [Line(by_layer(pair, of), looks[name], {"markevery": 1}) for name, of in found.items()],
            "Cosine by layer",
            scale="layers",
            span=_SPAN,
            ticks=ticks,
        )
        for pair, said in of_pairs.items()
        if groups
    ]
    entries = [style.entry(inputs.variants[name], look) for name, look in looks.items()]
    if steps:
        thin = style.entry("second row: before surgery", style.Look("0.4"), linewidth=0.6)
        entries.append(thin)
    rows = [row for row in (pairs, steps, layers) if row]
    about_steps = (
        " Second row: between a task's gradient and the actual step, after surgery; thin: and the "
        "plain sum, before surgery."
    )
    drawn = [line for panel in pairs for line in panel.lines]
    return draw(rows, entries, 1.6), [
        "Cosines between gradients of the shared parameters." + about_steps * bool(steps),
        smoothed_note(drawn, window, "faint in the first row: as logged"),
        "Last row: mean over all of training, before surgery, by layer." * bool(groups),
        *lacking,
    ]


def _tasks(runs: Iterable[History], metric: str) -> list[str]:
    """Return the tasks, or pairs of tasks, that the runs have rows of `metric` for."""
    return list(dict.fromkeys(of.task for run in runs for of in run.rows if of.metric == metric))
