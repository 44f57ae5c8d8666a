"""Dev scores with and without the examples that also occur in train."""

from pathlib import Path
from typing import Any

from minbert.data.parquet import read_file
from minbert.evaluate.scoring import score_task
from minbert.evaluate.statistics import Interval, interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec
from minbert.figures.predicted import Predicted, mostly_above, read_predicted, seeds_of
from minbert.figures.rows import marks, rows_legend, rows_of_panels
from minbert.figures.scored import CROSSED, seeds_note, title_of
from minbert.spec.task import TASKS


class Spec(VariantsSpec):
    """All variants of one paper, on dev.

    Texts are compared as `minbert.data.report.seen` sees them. Tasks without overlap have no panel,
    but are named in a note.
    """

    def plot(self, inputs: Inputs) -> Drawn:
        found: dict[str, dict[str, tuple[Interval, Interval | None]]] = {}
        heads: dict[str, str] = {}
        spared: list[str] = []
        flat: set[tuple[str, str]] = set()
        counted: list[str] = []
        for task in (task for task in TASKS if task in inputs.rows):
            leaked = _leaked(inputs.rows[task], "dev")
            if not leaked:
                spared.append(TASKS[task].title)
            if in_test := _leaked(inputs.rows[task], "test"):
                counted.append(f"{TASKS[task].title} {len(in_test)}")
            for name in self.variants if leaked else ():
                one = read_predicted(inputs.predictions.get(name, {}).get(task, {}), task)
                if one is not None:
                    found.setdefault(task, {})[name] = whole_and_clean(task, one, leaked)
                    flat |= set() if mostly_above(task, one) else {(task, name)}
                    # Not all of dev if a half of it chose the epochs.
                    seen = len(leaked.intersection(one.ids))
                    heads[task] = f"{title_of(task)}\n({seen} of {len(one.ids)})"
        none = f"No dev example of {' or '.join(spared)} occurs in train." if spared else ""
        notes = [none] if none and found else []
        if counted:
            notes.append(f"Test examples that also occur in train: {', '.join(counted)}.")
        shown, absent = seeds_of(inputs, self.variants)
        notes += absent
        if not found:
            said = f"{none} So there is nothing to leave out." if any(shown.values()) else ""
            return style.nothing(said or "no run yet"), notes
        rows = [name for name in self.variants if any(name in of for of in found.values())]
        figure, panels = rows_of_panels([self.variants[name] for name in rows], len(found))
        for axes, (task, of) in zip(panels, found.items(), strict=True):
            whole, clean = zip(*(of.get(name, (None, None)) for name in rows), strict=True)
            crossed = [row for row, name in enumerate(rows) if (task, name) in flat]
            about: dict[str, Any] = {"label": "all dev", "filled": False, "lower": -0.14}
            marks(axes, whole, style.look(0), crossed=crossed, **about)
            marks(axes, clean, style.look(1), label="not in train", lower=0.14, crossed=crossed)
            axes.set_xlabel(heads[task])
        rows_legend(panels)
        means = [whole for of in found.values() for whole, _ in of.values()]
        said = "In brackets: how many dev examples have a text that also occurs in train."
        return figure, [said, *([CROSSED] if flat else []), *seeds_note(means), *notes]


def _leaked(rows: Path, split: str) -> set[str]:
    """Return the ids of the rows of a split whose text is also in train."""
    found = read_file(rows, ["id"], [("split", "=", split), ("in_train", "=", True)])
    return set(found["id"].to_pylist())


def whole_and_clean(
    task: str, one: Predicted, leaked: set[str]
) -> tuple[Interval, Interval | None]:
    """Return the score on all dev examples, and on those whose text does not occur in train.

    The second is None if all of them do.
    """
    clean = [n for n, name in enumerate(one.ids) if name not in leaked]
    whole = interval([score_task(task, seed, one.label) for seed in one.prediction])
    if not clean:
        return whole, None
    return whole, interval(
        [score_task(task, seed[clean], one.label[clean]) for seed in one.prediction]
    )
