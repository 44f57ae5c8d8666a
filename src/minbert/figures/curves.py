"""What runs recorded: losses, scores, a paper's tables by epoch, cosines, a fusion's attention."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from minbert.base.errors import UserError
from minbert.figures import read, style
from minbert.figures.read import (
    FLOOR,
    Drawn,
    Inputs,
    recorded_as,
    task_title,
    title_of,
)
from minbert.spec.figures import Curves, Options

DEV, TRAIN = style.LOOKS[:2]
_LINES = "Lines: mean over seeds; bands: smallest to largest seed."

Runs = dict[str, read.Curves]
"""What the runs of each variant recorded."""


def curves(options: Curves, inputs: Inputs) -> Drawn:
    """Draw what `options.show` says."""
    views = {"scores": _scores, "runs": _runs, "tables": _tables, "cosines": _cosines}
    found = inputs.last_stages()
    if not found and options.show != "tables":
        raise style.NothingToShow
    return views.get(options.show, _loss)(options, inputs, found)


def _line(
    axes: Axes,
    curve: pd.DataFrame | None,
    look: style.Look,
    label: str = "",
    smooth: float = 0.0,
) -> None:
    """Draw the mean of a curve over seeds, and a band from the smallest to the largest.

    Both are running means over a share `smooth` of its points, if any; the mean as it was logged is
    faint. A line without a `label` is thin, with nothing else.
    """
    if curve is None:
        return
    axes.locator_params(nbins=5, min_n_ticks=1)
    axes.locator_params(axis="x", integer=True)
    color, logged = look["color"], curve.dropna()
    drawn = _smoothed(logged, smooth)
    mean = drawn.mean(axis=1)
    if not label:
        axes.plot(mean, color=color, linewidth=0.6, zorder=2)
        return
    if smooth:
        axes.plot(logged.mean(axis=1), color=color, linewidth=0.4, alpha=0.25, zorder=1)
    ends = drawn.min(axis=1), drawn.max(axis=1)
    axes.fill_between(mean.index, *ends, color=color, alpha=0.2, linewidth=0, zorder=2)
    axes.plot(mean, **look, label=label, markevery=max(1, len(mean) // 8), zorder=3)


def _smoothed(curve: pd.DataFrame, share: float) -> pd.DataFrame:
    return curve.rolling(max(1, round(share * len(curve))), center=True, min_periods=1).mean()


def _loss(options: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """A line per variant on a logarithmic axis, and its mean over the last epoch."""
    figure, (axes,) = style.panels(1, 2.0, xlabel="Epoch")
    for n, (name, recorded) in enumerate(found.items()):
        curve = recorded.get(("train", options.task, "loss"))
        if curve is None:
            raise UserError(
                f"figure 'curves': variant '{name}' has no training loss of task '{options.task}'"
            )
        last = curve[curve.index > curve.index[-1] - 1].mean().mean()
        label = f"{inputs.variants[name]} ({last:#.3g})"
        _line(axes, curve, style.look(n), label, options.smooth)
    axes.set_ylabel(f"{options.ylabel} (log scale)")
    axes.set_yscale("log", subs=(2, 5))
    axes.yaxis.set(major_formatter="{x:g}", minor_formatter="{x:g}")
    return figure, [
        f"{_LINES} Running means over {100 * options.smooth:g} % of the run; faint: as logged. In "
        "brackets: mean of the last epoch.",
    ]


def _scores(_: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """A panel for the overall score and each task, a line per variant; train is thin."""
    measures = inputs.measures(found)
    figure, panels = style.panels(len(measures), 1.75, 2, xlabel="Epoch")
    for axes, measure in zip(panels, measures, strict=True):
        of = recorded_as(measure)
        for n, (name, recorded) in enumerate(found.items()):
            _line(axes, recorded.get(("dev", *of)), style.look(n), inputs.variants[name])
            _line(axes, recorded.get(("train", *of)), style.look(n))
        inputs.draw_floors(axes, found, measure)
        axes.set_ylabel(title_of(measure))
    return figure, [
        "Dev scores after each epoch; thin, without bands: on the training batches, during "
        f"training. {FLOOR} {_LINES}",
    ]


def _runs(options: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """Loss and score of each variant's last stage, or of pairs of variants on one scale."""
    names, columns = ([*chain(*options.pairs)], 4) if options.pairs else ([*found], 6)
    figure, panels = style.panels(2 * len(names), 1.15, columns, xlabel="Epoch", dense=True)
    for n, (name, loss, score) in enumerate(zip(names, panels[::2], panels[1::2], strict=True)):
        if n:
            score.sharey(panels[1])
        if n % 2 and options.pairs:
            loss.sharey(panels[2 * n - 2])
        loss.set_title(f"{style.shorten(inputs.variants[name], 132 // columns)}\nloss")
        score.set_title("no run")
        if recorded := found.get(name):
            spec = inputs.about["stages"][name][-1]["spec"]
            weights = {task: of["weight"] for task, of in spec["tasks"].items() if of["trained"]}
            parts = [weight * recorded["dev", task, "loss"] for task, weight in weights.items()]
            _line(loss, _smoothed(recorded["train", "overall", "loss"], 0.1), TRAIN, "train")
            # The tasks' dev losses are combined like those of a training step.
            _line(loss, pd.concat(parts).groupby(level=0).agg(spec["reduction"]), DEV, "dev")
            whole = ("train", "overall", inputs.rule) in recorded
            _score(score, inputs, name, recorded, inputs.rule if whole else next(iter(weights)))
    return figure, [
        "The last stage of each variant. Loss: per training step, all its tasks combined; on train "
        "a running mean over a tenth of the run, with penalties and dropout; on dev without "
        "either. The squared error penalises a constant offset, which r ignores: so the dev loss "
        "may be twice the train loss while the scores agree.",
        "Scores on train: on the training batches, during training. Overall: of what the "
        f"stage trains. {FLOOR} {_LINES}",
    ]


def _tables(options: Curves, inputs: Inputs, _: Runs) -> Drawn:
    """Two panels per table: losses of epochs, divided by the first epoch's, and scores."""
    tables = options.tables
    figure, panels = style.panels(2 * len(tables), 1.2, 4, xlabel="Epoch", dense=True)
    for table, loss, score in zip(tables, panels[::2], panels[1::2], strict=True):
        stages = {stage["name"]: stage for stage in inputs.about["stages"][table.variant]}
        if recorded := inputs.curves(stages[table.stage]):
            curve = recorded["train", table.task, "loss"]
            means = curve.groupby(np.ceil(curve.index - 1e-9)).mean()
            _line(loss, means / means.iloc[0], TRAIN, "train")
        _printed(loss, "train", [value / table.loss[0] for value in table.loss])
        _score(score, inputs, table.variant, recorded, table.task)
        _printed(score, "train", table.train)
        _printed(score, "dev", table.dev)
        loss.set_title(f"{style.shorten(table.title, 30)}\ntraining loss, relative")
    return figure, [
        "Training loss: the mean of each epoch divided by the first epoch's, as the paper does "
        f"not say how it scales its losses; ours is with dropout. {FLOOR} {_LINES}",
    ]


def _score(axes: Axes, inputs: Inputs, name: str, recorded: read.Curves, measure: str) -> None:
    """Draw a variant's score on train and dev, and its floor."""
    for split, look in ("train", TRAIN), ("dev", DEV):
        _line(axes, recorded.get((split, *recorded_as(measure))), look, split)
    inputs.draw_floors(axes, [name], measure)
    axes.set_title(title_of(measure))


def _printed(axes: Axes, split: str, values: Sequence[float]) -> None:
    """Draw what a paper printed for each epoch, if it did."""
    if values:
        line = axes.plot(range(1, len(values) + 1), values, ":", color="0.45")
        line[0].set(marker={"train": "v", "dev": "o"}[split], label=f"published, {split}")


PAIR, BEFORE, AFTER = "gradient_cosine", "sum_cosine", "update_cosine"  # metrics
_BY_LAYER = "by layer"


def _cosines(options: Curves, inputs: Inputs, found: Runs) -> Drawn:
    """Cosines (Yu et al., 2020, section 2), a line per variant.

    First between two tasks' gradients of the shared parameters, before surgery; then between a
    task's gradient and the step's, before surgery (the plain sum) and after; then as the first, by
    group of layers.
    """
    # In the order of the histories, which is that of the encoder.
    every = dict.fromkeys(of[1:] for recorded in found.values() for of in recorded)
    shown = [of for of in every if of[1] in (PAIR, AFTER)]
    shown += [(pair, _BY_LAYER) for pair, metric in every if metric == PAIR]
    groups = [*dict.fromkeys(metric for _, metric in every if metric.startswith(f"{PAIR}/"))]
    layers = [group.replace("/", "_").rpartition("_")[2] for group in groups]
    ticks = [{"embeddings": "E", "pooler": "P"}.get(name, name) for name in layers]
    figure, panels = style.panels(len(shown), 1.7, sharey="row")
    for axes, (key, metric) in zip(panels, shown, strict=True):
        axes.axhline(0, **style.ZERO)
        names = [*map(task_title, key.split("-")), *["the step"] * (metric == AFTER)]
        axes.set(title=" and ".join(names), xlabel="Epoch")
        for n, (name, recorded) in enumerate(found.items()):
            curve, smooth = recorded.get(("train", key, metric)), options.smooth
            if metric == _BY_LAYER:
                of_groups = (recorded.get(("train", key, of), pd.DataFrame()) for of in groups)
                curve, smooth = pd.DataFrame([of.mean() for of in of_groups]), 0
            _line(axes, curve, style.look(n), inputs.variants[name], smooth)
            if metric == AFTER:
                _line(axes, recorded.get(("train", key, BEFORE)), style.look(n), "", smooth)
        if metric == _BY_LAYER:
            axes.set_xticks(range(len(ticks)), ticks)
            axes.set_xlabel("Layer (E: embeddings, P: pooler)")
    for axes in panels[::3]:
        axes.set_ylabel("Cosine")
    return figure, [
        "Cosines between gradients of the shared parameters. A task and the step: its gradient "
        "against the step after surgery; thin: against the plain sum, before surgery. By layer: "
        "mean over all of training, before surgery.",
        f"{_LINES} Running means over {100 * options.smooth:g} % of the run; faint: as logged.",
    ]


def fusion_attention(options: Options, inputs: Inputs) -> Drawn:
    """Draw a panel for each fusion of the variants: its mean attention to adapters.

    As Pfeiffer et al. (2021), Figure 4. A row is a sublayer, with the first layer at the bottom; a
    column is an adapter. A row is the mean over all tokens of the target's dev set, and over seeds,
    and adds up to 1.
    """
    tables: dict[tuple[str, str, tuple[str, ...]], pd.DataFrame] = {}
    for name, label in inputs.variants.items():
        for stage in (of for of in inputs.about["stages"][name] if of["fused"]):
            adapters = tuple(task_title(ref.partition("/")[2]) for ref in stage["fused"])
            # Layers and adapters are in their order; each run has one value, at its best epoch.
            for (_, task, metric), curve in inputs.curves(stage).items():
                if metric.startswith("fusion_attention/"):
                    _, layer, place, adapter = metric.split("/")
                    of = label, task_title(task), adapters
                    table = tables.setdefault(of, pd.DataFrame())
                    table.loc[f"{layer} {place.replace('_', '-')}", adapter] = curve.mean().mean()
    figure, panels = style.panels(
        len(tables), 1.1 + 0.15 * max(map(len, tables.values()), default=0), 4
    )
    for axes, ((label, target, adapters), upwards) in zip(panels, tables.items(), strict=True):
        table = upwards[::-1].set_axis([style.shorten(at, 12) for at in adapters], axis=1)
        style.heat_map(axes, table, table.map("{:.2f}".format))
        axes.tick_params(axis="y", labelsize=5.5)
        axes.tick_params(axis="x", rotation=90)
        axes.set_title(f"{style.shorten(label, 22)}\ntarget: {target}", loc="right")
        axes.set_xlabel("adapter")
    panels[0].set_ylabel("layer")
    said = "Mean over the tokens of the target's dev set, and over seeds. Rows add up to 1."
    return figure, [said]
