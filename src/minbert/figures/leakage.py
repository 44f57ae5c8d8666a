"""What dev examples that also occur in train add to the dev scores."""

from pathlib import Path

from minbert.data.parquet import read_file
from minbert.evaluate.scoring import score_task
from minbert.evaluate.statistics import Interval, interval
from minbert.figures import style
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec
from minbert.figures.predicted import Predicted, mostly_above, read_predicted, seeds_of
from minbert.figures.rows import limit, marks, rows_legend, rows_of_panels
from minbert.figures.scored import CROSSED, CUT, seeds_note, title_of
from minbert.spec.task import TASKS


class Spec(VariantsSpec):
    """All variants of one paper: scores on all of dev minus those without what occurs in train.

    Texts are compared as `minbert.data.examples.seen` sees them. Tasks without overlap have no
    panel, but are named in a note.
    """

    def plot(self, inputs: Inputs) -> Drawn:
        found: dict[str, dict[str, Interval | None]] = {}
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
                    found.setdefault(task, {})[name] = added(task, one, leaked)
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
        figure, panels = rows_of_panels(
            [self.variants[name] for name in rows], [heads[task] for task in found]
        )
        cut = False
        for axes, (task, of) in zip(panels, found.items(), strict=True):
            of_rows = [of.get(name) for name in rows]
            crossed = [row for row, name in enumerate(rows) if (task, name) in flat]
            axes.axvline(0, color="0.5", linewidth=0.8, zorder=1)
            marks(axes, of_rows, label="difference", crossed=crossed)
            cut |= limit(axes, of_rows, [0.0])
        rows_legend(panels)
        over = seeds_note(one for of in found.values() for one in of.values())
        return figure, [
            "Score on all of dev minus the score without the examples whose text also occurs in "
            "train, seed by seed. In brackets: how many these are.",
            *([CROSSED] if flat else []),
            *([" ".join([*over, CUT])] if cut else over),
            *notes,
        ]


def _leaked(rows: Path, split: str) -> set[str]:
    """Return the ids of the rows of a split whose text is also in train."""
    found = read_file(rows, ["id"], {"split": split, "in_train": True})
    return set(found["id"].to_pylist())


def added(task: str, one: Predicted, leaked: set[str]) -> Interval | None:
    """Return what the `leaked` examples add to the score; None if there are no others."""
    clean = [n for n, name in enumerate(one.ids) if name not in leaked]
    if not clean:
        return None
    return interval(
        [
            score_task(task, seed, one.label) - score_task(task, seed[clean], one.label[clean])
            for seed in one.prediction
        ]
    )
