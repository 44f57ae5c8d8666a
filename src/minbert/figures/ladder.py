"""The ladder of an ablation: what each row gains over the one that it adds something to."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from minbert.common.errors import UserError, nearest
from minbert.evaluate.statistics import Interval, interval
from minbert.figures import style
from minbert.figures.inputs import Inputs, absent_notes
from minbert.figures.rows import LABEL, marks, rows_of_panels
from minbert.figures.scored import TITLES, Of, Scores, read_scores, seeds_note, seeds_shown
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS


class Spec(FigureSpec):
    """Rows in the order of `variants`. `over` names the row that another one is set against.

    Without it that is the row above.
    """

    variants: dict[str, str] = Field(min_length=2)
    over: dict[str, str] = Field(default_factory=dict)


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw the gains of `spec` (see `Spec`) from the paper's dev scores.

    A panel for the overall score, by the paper's rule, and for each task. A gain is the mean over
    seeds of the difference between the two rows' scores; hollow: the published one.
    """
    render("ladder", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    ((paper, path),) = inputs.scores.items()
    rule = inputs.facts["rules"][paper]
    scores = {of: v for of, v in read_scores(path, paper).items() if of.split == "dev"}
    shown = {name: seeds_shown(scores, name, "dev") for name in spec.variants}
    seeds = set().union(*shown.values())
    notes = absent_notes(spec.variants, shown, dict.fromkeys(spec.variants, seeds), inputs.failed)
    steps = _steps(spec)
    measures = [m for m in (rule, *TASKS) if any(of.measure == m for of in scores)]
    if not measures:
        return style.nothing(spec.title), notes
    labels, keys = _labels(spec, steps)
    figure, panels = rows_of_panels(labels, len(measures))
    published = _published(inputs.facts["published"], rule)
    counts = set()
    for axes, measure in zip(panels, measures, strict=True):
        gains = {
            float(row): gain(scores, name, below, measure)
            for row, (name, below) in enumerate(steps.items())
        }
        counts |= {one.n for one in gains.values() if one is not None}
        said = {
            row + 0.22: _difference(published, name, below, measure)
            for row, (name, below) in enumerate(steps.items())
        }
        axes.axvline(0, color="0.5", linewidth=0.8, zorder=1)
        marks(axes, gains, style.look(0), label="ours")
        marks(axes, said, style.look(4), filled=False, label="published")
        axes.set_xlabel(f"Gain in\n{TITLES.get(measure, 'overall score')}")
    figure.suptitle(spec.title)
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1)
    first = next(iter(spec.variants.values()))
    of_all = f"Overall: {rule} mean of SST, paraphrase and STS, on dev."
    over = "; ".join([f"Each row over the one above, the first over {first}", *keys])
    return figure, [of_all, f"{over}.", *seeds_note(counts, "Gains"), *notes]


def _steps(spec: Spec) -> dict[str, str]:
    """Return {variant: the one that it is set against} of all rows but the first."""
    names = list(spec.variants)
    for name in (*spec.over, *spec.over.values()):
        if name not in names:
            raise UserError(
                f"figure 'ladder', key 'over': variant '{name}' is not among the figure's "
                f"variants.{nearest(name, names)}"
            )
    return {name: spec.over.get(name, before) for before, name in pairwise(names)}


def _labels(spec: Spec, steps: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the rows' labels, and what the letters mean that mark rows over another than above."""
    labels: list[str] = []
    letters: dict[str, str] = {}
    for (before, name), below in zip(pairwise(spec.variants), steps.values(), strict=True):
        mark = ""
        if below != before:
            mark = f" ({letters.setdefault(below, chr(ord('a') + len(letters) % 26))})"
        labels.append(f"{style.shorten(spec.variants[name], LABEL - len(mark))}{mark}")
    return labels, [f"({letter}) over {spec.variants[below]}" for below, letter in letters.items()]


def gain(scores: Scores, name: str, below: str, measure: str) -> Interval | None:
    """Return the mean gain over the seeds that both have, with its interval; None without any."""
    one, other = (scores.get(Of(variant, "dev", measure), {}) for variant in (name, below))
    both = sorted(set(one) & set(other))
    return interval([one[seed] - other[seed] for seed in both]) if both else None


def _published(rows: list[Mapping[str, Any]], rule: str) -> dict[tuple[str, str], float]:
    found = {}
    for row in rows:
        if row["split"] == "dev":
            for task, value in row["figures"].items():
                if value is not None:
                    found[row["variant"], rule if task == "overall" else task] = value
    return found


def _difference(
    published: Mapping[tuple[str, str], float], name: str, below: str, measure: str
) -> Interval | None:
    one, other = (published.get((variant, measure)) for variant in (name, below))
    return None if one is None or other is None else Interval(one - other, None, None, 1)
