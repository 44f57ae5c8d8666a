"""What the dev examples that stand in train, too, do to the scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from minbert.data.overlap import overlapping
from minbert.evaluate.reading import read_columns
from minbert.evaluate.statistics import Interval, interval
from minbert.figures import style
from minbert.figures.inputs import Inputs, absent_notes, present
from minbert.figures.predicted import Predicted, read_predicted
from minbert.figures.rows import marks, rows_of_panels
from minbert.figures.scored import TITLES, seeds_note
from minbert.figures.spec import FigureSpec, render
from minbert.grid.tasks import TASKS
from minbert.scoring import score_task

_COLUMNS = ("id", "split", "sentence1", "sentence2")


class Spec(FigureSpec):
    """All variants of one paper, on dev."""

    variants: dict[str, str] = Field(min_length=1)


class Both(NamedTuple):
    """A score on all dev examples, and on those whose text does not stand in train."""

    whole: Interval
    clean: Interval


def draw(spec: dict[str, Any], inputs: Inputs, stem: Path) -> None:
    """Draw each variant's dev scores with and without the examples that overlap with train.

    Texts are compared as `minbert.data.overlap.seen` sees them. A task without overlap has no
    panel, but is named.
    """
    render("leakage", Spec, plot, spec, inputs, stem)


def plot(spec: Spec, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure, and the notes that belong under it."""
    found: dict[str, dict[str, Both]] = {}
    heads: dict[str, str] = {}
    spared: list[str] = []
    of_tests: dict[str, set[str]] = {}
    wanted: dict[str, set[int]] = {name: set() for name in spec.variants}
    shown: dict[str, set[int]] = {name: set() for name in spec.variants}
    for task in (task for task in TASKS if task in inputs.examples):
        overlaps = overlapping(read_columns(inputs.examples[task], _COLUMNS).to_pylist())
        leaked, of_tests[task] = overlaps["dev"], overlaps["test"]
        for name in spec.variants:
            of_seeds = inputs.predictions.get(name, {}).get(task, {})
            wanted[name] |= set(of_seeds)
            shown[name] |= set(present(of_seeds))
            one = read_predicted(of_seeds, task) if leaked else None
            if one is not None:
                found.setdefault(task, {})[name] = _both(task, one, leaked)
                heads[task] = f"{TITLES[task]}\n({len(leaked)} of {len(one.ids)})"
        if not leaked:
            spared.append(TASKS[task].title)
    absent = absent_notes(spec.variants, shown, wanted, inputs.failed)
    notes = [f"No dev example of {' or '.join(spared)} stands in train."] if spared else []
    counted = [f"{TASKS[task].title} {len(ids)}" for task, ids in of_tests.items() if ids]
    notes += [f"Test examples that stand in train: {', '.join(counted)}."] if counted else []
    if not found:
        said = "no overlap" if any(shown.values()) else "no run yet"
        return style.nothing(spec.title, said), notes + absent
    rows = [name for name in spec.variants if any(name in of for of in found.values())]
    figure, panels = rows_of_panels([spec.variants[name] for name in rows], len(found))
    for axes, (task, of) in zip(panels, found.items(), strict=True):
        places = {row: of[name] for row, name in enumerate(rows) if name in of}
        whole = {row - 0.14: both.whole for row, both in places.items()}
        clean = {row + 0.14: both.clean for row, both in places.items()}
        marks(axes, whole, style.look(0), filled=False, label="all dev")
        marks(axes, clean, style.look(1), label="not in train")
        axes.set_xlabel(heads[task])
    figure.suptitle(spec.title)
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1)
    counts = [both.whole.n for of in found.values() for both in of.values()]
    said = "In brackets: dev examples whose text stands in train, of all."
    return figure, [said, *seeds_note(counts), *notes, *absent]


def _both(task: str, one: Predicted, leaked: set[str]) -> Both:
    clean = np.array([name not in leaked for name in one.ids])
    kept: Mapping[str, Any] = {"whole": np.full(len(clean), True), "clean": clean}
    values = {
        how: [score_task(task, seed[mask], one.label[mask]) for seed in one.prediction]
        for how, mask in kept.items()
    }
    return Both(interval(values["whole"]), interval(values["clean"]))
