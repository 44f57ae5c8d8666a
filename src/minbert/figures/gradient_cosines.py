"""Do the tasks' gradients conflict? Their cosines over training, before and after surgery."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from pydantic import Field

from minbert.evaluate.statistics import Interval, interval
from minbert.figures import curves, style
from minbert.figures.curves import Of
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec
from minbert.figures.scored import CUT, bars, ends
from minbert.spec.task import TASKS

PAIR = "gradient_cosine"
BEFORE, AFTER = "sum_cosine", "update_cosine"
_GREY = style.Look("0.4", "-", "")
_THIN: dict[str, Any] = {"linewidth": 0.6}
_SPAN = 0.1  # of a cosine: a shorter axis would make differences that are noise look large

Runs = Mapping[str, Sequence[curves.History]]


class Spec(VariantsSpec):
    """A line per variant (Yu et al., 2020, section 2).

    First row: between two tasks' gradients of the shared parameters, before surgery. Second:
    between a task's gradient and the step's, before surgery (the plain sum) and after. Third: as
    the first, by group of layers. Rows that no history has values for are left out. `smooth` is the
    running mean's width as a share of the longest run.
    """

    smooth: float = Field(default=1 / 10, ge=0, lt=1)

    def plot(self, inputs: Inputs) -> Drawn:
        read, absent = curves.histories_of(inputs, self.variants)
        found = {name: runs for name, runs in read.items() if _tasks(runs, PAIR)}
        without = [self.variants[name] for name in read if name not in found]
        if without:
            absent.append(f"No gradient surgery, so no cosines: {', '.join(without)}.")
        if not found:
            return style.nothing("no cosines" if read else "no run yet"), absent
        every = [run for runs in found.values() for run in runs]
        pairs, tasks = _tasks(every, PAIR), _tasks(every, AFTER)
        named = (of.metric.partition("/") for run in every for of in run.rows)
        # In the order of the histories, which is that of the encoder.
        groups = list(
            dict.fromkeys(group for metric, _, group in named if metric == PAIR and group)
        )
        entries = style.entries_of(self.variants[name] for name in found)
        if tasks:
            entries.append(style.entry("second row: before surgery", _GREY, **_THIN))
        columns = max(len(pairs), len(tasks))
        figure, rows = style.panel_grid(1 + bool(tasks) + bool(groups), columns, 1.6, entries)
        window = self.smooth * curves.longest(every)
        lines = _pairs(rows[0], found, pairs, window)
        if tasks:
            _steps(rows[1], found, tasks, window)
        if groups:
            _by_group(rows[-1], found, pairs, groups)
        for row in rows:
            style.share_height(row)
            for axes in row:
                style.at_least(axes, _SPAN)
        said = ["Cosine", *(["Cosine"] if tasks else []), "Cosine by layer"]
        for row, label in zip(rows, said, strict=False):
            row[0].set_ylabel(label)
        for axes in (axes for row in rows[: 1 + bool(tasks)] for axes in row):
            curves.epoch_axis(axes, curves.longest(every))
            axes.set_xlabel("Epoch")
        style.hide_empty(rows)
        notes = ["Cosines between gradients of the shared parameters."]
        if tasks:
            notes[0] += (
                " Second row: between a task's gradient and the actual step, after surgery; "
                "thin: and the plain sum, before surgery."
            )
        notes.append(curves.smoothed_note(lines, window, " (faint in the first row: as logged)"))
        if groups:
            notes.append("Last row: mean over all of training, before surgery, by layer.")
            if max(map(len, found.values())) > 1:
                notes[-1] += f" Bars: 95 % interval over seeds. {CUT}"
        return figure, [*notes, *absent]


def _tasks(runs: Iterable[curves.History], metric: str) -> list[str]:
    """Return the tasks, or pairs of tasks, that the runs have rows of `metric` for."""
    return list(dict.fromkeys(of.task for run in runs for of in run.rows if of.metric == metric))


def _said(pair: str) -> str:
    return " and ".join(TASKS[task].title if task in TASKS else task for task in pair.split("-"))


def _pairs(row: list[Axes], found: Runs, pairs: list[str], window: float) -> list[curves.Curve]:
    drawn: list[curves.Curve] = []
    for axes, pair in zip(row, pairs, strict=False):
        _zero(axes, _said(pair))
        of = Of("train", pair, PAIR)
        for number, runs in enumerate(found.values()):
            curve = curves.curve_of(runs, of)
            curves.draw_curve(axes, curve, style.look(number), window)
            drawn += [curve] if curve is not None else []
    return drawn


def _steps(row: list[Axes], found: Runs, tasks: list[str], window: float) -> None:
    for axes, task in zip(row, tasks, strict=False):
        _zero(axes, f"{_said(task)} and the step")
        for number, runs in enumerate(found.values()):
            look = style.look(number)
            plain = style.Look(look.color, "-", "")
            for metric, drawn, about in ((AFTER, look, {}), (BEFORE, plain, _THIN)):
                curve = curves.curve_of(runs, Of("train", task, metric))
                curves.draw_curve(axes, curve, drawn, window, faint=False, **about)


def _by_group(row: list[Axes], found: Runs, pairs: list[str], groups: list[str]) -> None:
    for axes, pair in zip(row, pairs, strict=False):
        _zero(axes, _said(pair))
        shown = [Interval(0.0, None, None, 0)]  # the line
        for number, runs in enumerate(found.values()):
            means: dict[float, Interval] = {}
            for place, group in enumerate(groups):
                curve = curves.curve_of(runs, Of("train", pair, f"{PAIR}/{group}"))
                if curve is not None:
                    aside = 0.1 * (number - (len(found) - 1) / 2)
                    means[place + aside] = interval(curve.values.mean(axis=1).tolist())
            y = [one.mean for one in means.values()]
            look = {"elinewidth": 0.8, **style.look(number)._asdict()}
            axes.errorbar(list(means), y, bars(means.values()), **look)
            shown += means.values()
        axes.set_ylim(*ends(shown))
        short = {"embeddings": "E", "pooler": "P"}  # 24 layers have to fit side by side
        axes.set_xticks(range(len(groups)), [short.get(g, g.rpartition("_")[2]) for g in groups])
        axes.set(xlim=(-0.5, len(groups) - 0.5), xlabel="Layer (E: embeddings, P: pooler)")


def _zero(axes: Axes, title: str) -> None:
    axes.axhline(0, color="0.5", linewidth=0.7, zorder=1)
    axes.set_title(title)
