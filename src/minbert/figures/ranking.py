"""A paper's variants from best to worst: overall score and each task, with intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure

from minbert.evaluate.statistics import Interval
from minbert.figures import style
from minbert.figures.inputs import Inputs, absent_notes
from minbert.figures.rows import marks, rows_of_panels
from minbert.figures.scored import TITLES, Of, over_seeds, read_scores, seeds_note, seeds_shown
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS


class Spec(FigureSpec):
    """All variants of one paper by their scores on `split`."""

    split: Literal["dev", "test"] = "dev"


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the ranking of `spec` (see `Spec`) from the paper's scores.

    A panel for the overall score, by the paper's rule, and for each task that is scored. Variants
    are sorted by the overall score; those without one stand below, by their mean over tasks.
    """
    render("ranking", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    ((paper, path),) = inputs.scores.items()
    scores = {of: v for of, v in read_scores(path, paper).items() if of.split == spec.split}
    found = over_seeds(scores)
    rule = inputs.facts["rules"][paper]
    shown = {name: seeds_shown(scores, name, spec.split) for name in spec.variants}
    seeds = set().union(*shown.values())
    notes = absent_notes(spec.variants, shown, dict.fromkeys(spec.variants, seeds), inputs.failed)
    names = sorted((n for n in spec.variants if shown[n]), key=_order(found, spec.split, rule))
    measures = [m for m in (rule, *TASKS) if any(of.measure == m for of in found)]
    if not names:
        return style.nothing(spec.title), notes
    figure, panels = rows_of_panels([spec.variants[name] for name in names], len(measures))
    for axes, measure in zip(panels, measures, strict=True):
        marks(axes, {row: found.get(Of(n, spec.split, measure)) for row, n in enumerate(names)})
        axes.set_xlabel(TITLES.get(measure, TITLES["overall"]).replace(" ", "\n", 1))
    figure.suptitle(spec.title)
    said = f"Overall: {rule} mean of SST, paraphrase and STS, on {spec.split}."
    counts = [len(shown[name]) for name in names]
    return figure, [said, *seeds_note(counts), *notes]


def _order(found: dict[Of, Interval], split: str, rule: str) -> Callable[[str], tuple[bool, float]]:
    def key(name: str) -> tuple[bool, float]:
        whole = found.get(Of(name, split, rule))
        if whole is not None:
            return False, -whole.mean
        means = [found[of].mean for task in TASKS if (of := Of(name, split, task)) in found]
        return True, -sum(means) / len(means)

    return key
