"""How two variants differ, or one before and after an edit: settings, dev scores, dev examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.bootstrap import difference
from minbert.evaluate.predictions import Predicted, read_predicted
from minbert.evaluate.reading import Of, Score, Scores
from minbert.evaluate.systems import Systems
from minbert.explore.run import TEXTS, sentences
from minbert.plan import describe as plans
from minbert.predict.resolve_run import ResolvedVariant, find, versions
from minbert.report.worst import over_runs
from minbert.spec.task import TASKS
from minbert.store.job import node_folder
from minbert.store.plans import read_description

SPEC = ["stage", "name", "A", "B"]
SCORES = ["task", "A", "B", "difference", "low", "high", "seeds_A", "seeds_B", "n"]
EXAMPLES = ["task", "change", "id", "label", "A", "B", *TEXTS]
WORSE, BETTER = "right to wrong", "wrong to right"
SHOWN, LONGEST = 3, 100
"""Examples of each task and change in the text, and characters of a sentence there."""


@dataclass(frozen=True)
class Comparison:
    """How B differs from A; `about` says of each what it is. `str()` gives it as text.

    `spec` has a row for each setting, module of code or input that differs, by stage. `scores` has
    the mean dev score of each on every task that both have with the same `n` examples, and of all
    by the papers' rule if they share it, with the difference B - A and its 95 % interval: that of
    the claims (docs/statistics.md, Method), but for the variance over seeds, which is the variants'
    own. `examples` are the dev examples that most seeds of one get right and of the other wrong (a
    value is right within a tenth of the labels' range), those that changed most first.
    """

    about: tuple[str, str]
    spec: pd.DataFrame
    scores: pd.DataFrame
    examples: pd.DataFrame

    def __str__(self) -> str:
        blocks = ["\n".join(f"{side}  {of}" for side, of in zip("AB", self.about, strict=True))]
        spec = [
            f"{stage}  {said}"
            for stage, name, *pair in self.spec.to_numpy()
            for said in plans.shown({name: (pair[0], pair[1])})
        ]
        blocks.append("\n".join(spec) or "the same training")
        table = self.scores.to_string(index=False, float_format="{:.3f}".format)
        blocks.append(f"{table}\nB - A on dev, with its 95 % interval over examples and seeds.")
        if len(self.examples):
            ways = self.examples.groupby(["task", "change"])
            blocks.append(ways.size().rename("examples").reset_index().to_string(index=False))
            shown = ways.head(SHOWN).dropna(axis=1, how="all")
            digits = "{:.3g}".format
            blocks.append(shown.to_string(index=False, float_format=digits, max_colwidth=LONGEST))
        return "\n\n".join(blocks)


def compare(root: Path, one: str, other: str | None = None) -> Comparison:
    """Return how the variant `other` differs from `one` (names as `resolve_run.find` takes them).

    Without `other`, one result of `one` is compared with another, in the order in which they were
    trained: what is published with the latest one beside it, or with the one that `@KEY` names. One
    that is not trained yet comes last.
    """
    first = find(root, one)
    second = find(root, other or f"{first.paper}/{first.name}")
    if other is not None:
        return _compare(first, second)
    every = [first, *versions(root, f"{first.paper}/{first.name}")]
    found = next((of for of in every if of.chosen and of.stages != second.stages), None)
    if found is None:
        raise UserError(
            f"{root}: {first.paper}: variant '{first.name}' has no earlier result in the store "
            "(`minbert gc --delete` removes what the configuration no longer needs); name a "
            "second variant to compare it with"
        )
    return _compare(*sorted((found, second), key=lambda of: (not of.chosen, _trained(of))))


def _compare(one: ResolvedVariant, other: ResolvedVariant) -> Comparison:
    scores: Scores = {}
    files: dict[str, Path] = {}
    rule, overall = _overall(one)
    for side, each in (("A", one), ("B", other)):
        for seed, keys in each.chosen.items():
            whole = {rule: ""} if {*overall} <= keys.keys() else {}
            for measure, key in {**whole, **keys}.items():
                scores.setdefault(Of(side, "dev", measure), {})[seed] = Score(np.nan, key)
                folder = node_folder(each.root, "train", key, seed)
                files[f"{key}.{seed}"] = folder / "predictions.parquet"
    systems = Systems(scores, files, overall)
    rows, changed = [], []
    for measure in (*one.tasks, *([rule] if (rule, overall) == _overall(other) else [])):
        try:
            found = systems.of(measure)
        except UserError:  # Their examples differ.
            continue
        if len(found) < 3:  # One side and `MAJORITY`.
            continue
        a, b = found["A"], found["B"]
        change = difference(b, a, 0.0 if a.runs == b.runs else 1 / a.examples)
        means = (side.scores[0].mean() for side in (a, b))
        numbers = *means, change.value, *change.interval(), a.seeds, b.seeds, a.examples
        rows.append((measure, *numbers))
        if measure in TASKS:
            paths = (files[run[measure]] for run in (*a.runs, *b.runs))
            sides = read_predicted(paths, measure).split([a.seeds, b.seeds])
            changed.append(_changed(measure, sides, one))
    return Comparison(
        (_about(one), _about(other)),
        pd.DataFrame(_spec(one, other), columns=SPEC, dtype=object),
        pd.DataFrame(rows, columns=SCORES),
        pd.concat(changed or [pd.DataFrame(columns=EXAMPLES)], ignore_index=True),
    )


def _about(found: ResolvedVariant) -> str:
    stages = ", ".join(f"{stage} {key}" for stage, key in found.stages.items())
    when = f"trained {_trained(found):%Y-%m-%d %H:%M}" if found.chosen else "not trained yet"
    return f"{found.paper}/{found.name} ({stages}), {when}"


def _trained(found: ResolvedVariant) -> datetime:
    """Return when the last of a variant's trainings ended; long ago if none did."""
    runs = [(key, seed) for seed, keys in found.chosen.items() for key in keys.values()]
    paths = (node_folder(found.root, "train", *run) / "history.parquet" for run in runs)
    times = chain(*(read_file(path, ["time"])["time"].to_pylist() for path in paths))
    return datetime.fromtimestamp(max(times, default=0))


def _spec(one: ResolvedVariant, other: ResolvedVariant) -> Iterator[tuple[Any, ...]]:
    """Yield (stage, name, A, B) of all that differs; stages match by place."""
    for stage, their in zip_longest(one.stages, other.stages):
        name = stage if stage == their else f"{stage} / {their}"
        if stage is None or their is None:
            yield name, "stage", stage, their
            continue
        old = read_description(one.root, "train", one.stages[stage])
        new = read_description(other.root, "train", other.stages[their])
        for of, pair in plans.changes(plans.facts(old), plans.facts(new)).items():
            # A module or an input that only one of them has follows from a setting.
            if of.startswith("stage.") or (" " in of and all(pair)):
                yield name, of.removeprefix("stage."), *pair


def _overall(found: ResolvedVariant) -> tuple[str, list[str]]:
    """Return the rule and the tasks of the overall score of a variant's paper."""
    key = found.record["papers"][found.paper]["scores"]
    spec = read_description(found.root, "scores", key)["spec"]
    return spec["rule"], spec["overall_tasks"]


def _changed(task: str, sides: Sequence[Predicted], one: ResolvedVariant) -> pd.DataFrame:
    """Return the examples that most seeds of one side get right, and of the other wrong."""
    old, new = (over_runs(task, side) for side in sides)
    was, now = (of.right / len(side.prediction) for of, side in zip((old, new), sides, strict=True))
    first = sides[0]
    frame = pd.DataFrame({"id": first.ids, "label": first.label, "A": old.said, "B": new.said})
    frame["task"], frame["change"] = task, np.where(was > now, WORSE, BETTER)
    frame["moved"] = np.abs(new.error - old.error)
    frame = frame[(was - 0.5) * (now - 0.5) < 0]
    frame = frame.sort_values("moved", ascending=False, kind="stable")
    return frame.merge(sentences(one.run(task)), how="left", on="id")[EXAMPLES]
