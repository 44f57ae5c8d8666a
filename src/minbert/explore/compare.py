"""How two variants differ, or one before and after an edit: settings, dev scores, dev examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pandas as pd

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.bootstrap import Sample, combined, difference, sample
from minbert.evaluate.predictions import Predicted, read_predicted
from minbert.evaluate.reading import METRIC_TITLES
from minbert.evaluate.text import one_line
from minbert.explore.run import TEXTS, sentences
from minbert.plan import describe as plans
from minbert.predict.resolve_run import ResolvedVariant, earlier, find, plan_of
from minbert.report.worst import over_runs
from minbert.spec.task import TASKS
from minbert.store.job import node_folder
from minbert.store.plans import read_description

SPEC = ["stage", "name", "A", "B"]
SCORES = ["task", "metric", "A", "B", "difference", "low", "high", "seeds_A", "seeds_B"]
EXAMPLES = ["task", "change", "id", "label", "A", "B", *TEXTS]
WORSE, BETTER = "right to wrong", "wrong to right"
SHOWN, LONGEST = 3, 100
"""Examples of each task and change in the text, and characters of a sentence there."""


@dataclass(frozen=True)
class Comparison:
    """How B differs from A; `about` says of each what it is. `str()` gives it as text.

    `spec` has a row for each setting, module of code or input that differs, by stage. `scores` has
    the mean dev score of each on every task that both have, and of all by the paper's rule, with
    the difference B - A and its 95 % interval; none where their dev examples differ. It is that of
    the claims (docs/statistics.md, Method), but for the variance over seeds, which is the two
    variants' own.
    `examples` are the dev examples that most seeds of one get right and of the other wrong (a value
    is right within a tenth of the labels' range), those that changed most first.
    """

    about: tuple[str, str]
    spec: pd.DataFrame
    scores: pd.DataFrame
    examples: pd.DataFrame
    counts: Mapping[str, int]
    """Dev examples that were compared, by task."""

    def __str__(self) -> str:
        sides = "\n".join(f"{side}  {about}" for side, about in zip("AB", self.about, strict=True))
        spec = [
            f"{stage}  {said}"
            for stage, name, *pair in self.spec.to_numpy()
            for said in plans.shown({name: (pair[0], pair[1])})
        ]
        table = self.scores.to_string(index=False, float_format="{:.3f}".format, na_rep="-")
        how = (
            "B - A on dev, with its 95 % interval over examples and seeds; none of other examples."
        )
        blocks = [sides, "\n".join(spec or ["the same training"]), f"{table}\n{how}"]
        return "\n\n".join([*blocks, *("\n".join(self._changed(task)) for task in self.counts)])

    def _changed(self, task: str) -> Iterator[str]:
        """Yield how many examples of a task changed, and some of them."""
        of_task = self.examples[self.examples["task"] == task]
        changed = {change: of_task[of_task["change"] == change] for change in (WORSE, BETTER)}
        counts = ", ".join(f"{len(rows)} {change}" for change, rows in changed.items())
        yield f"{task}: {counts}, of {self.counts[task]} dev examples"
        for row in pd.concat([rows.head(SHOWN) for rows in changed.values()]).itertuples():
            texts = [one_line(of) for of in (row.sentence1, row.sentence2) if isinstance(of, str)]
            said = " | ".join(shorten(text, LONGEST, placeholder=" ...") for text in texts)
            said = said or f"({row.id}: its text is not here)"
            yield f"  {row.change}, {row.A:.3g} -> {row.B:.3g}, label {row.label:.3g}: {said}"


def compare(root: Path, one: str, other: str | None = None) -> Comparison:
    """Return how the variant `other` differs from `one` (names as `resolve_run.find` takes them).

    Without `other`, one result of `one` is compared with another, in the order in which they were
    trained: what is published with the latest one beside it, or with the one that `@KEY` names. One
    that is not trained yet comes last.
    """
    first = find(root, one)
    if other is not None:
        return _compare(first, find(root, other))
    published = find(root, f"{first.paper}/{first.name}")
    beside = [first] if first.stages != published.stages else list(earlier(published))
    if not beside:
        raise UserError(
            f"{root}: {first.paper}: variant '{first.name}' has no earlier result in the store "
            "(`minbert gc --delete` removes what the configuration no longer needs); name a "
            "second variant to compare it with"
        )
    pair = [beside[0], published]
    return _compare(*sorted(pair, key=lambda found: (not found.chosen, _trained(found))))


def _compare(one: ResolvedVariant, other: ResolvedVariant) -> Comparison:
    rows: list[dict[str, Any]] = []
    changed = [pd.DataFrame(columns=EXAMPLES)]
    compared: dict[str, tuple[list[Sample], list[list[int]]]] = {}
    counts: dict[str, int] = {}
    for task in (task for task in one.tasks if task in other.tasks):
        seeds = [sorted(n for n, keys in of.chosen.items() if task in keys) for of in (one, other)]
        if not all(seeds):
            continue
        a, b = (_predicted(*of, task) for of in zip((one, other), seeds, strict=True))
        sides = [sample(task, of.prediction, of.label) for of in (a, b)]
        least = None
        if a.ids == b.ids and np.array_equal(a.label, b.label):
            compared[task], counts[task] = (sides, seeds), len(a.ids)
            changed.append(_changed(task, a, b, one))
            least = 0.0 if np.array_equal(a.prediction, b.prediction) else 1 / len(a.ids)
        row = {"task": task, "metric": METRIC_TITLES[TASKS[task].metric]}
        rows.append(row | _score(sides, least))
    rule, tasks = _overall_rule(one)
    if (rule, tasks) == _overall_rule(other) and len(tasks) > 1 and set(tasks) <= counts.keys():
        seeds = compared[tasks[0]][1]
        if all(compared[task][1] == seeds for task in tasks):
            sides = [combined({task: compared[task][0][n] for task in tasks}, rule) for n in (0, 1)]
            pairs = (compared[task][0] for task in tasks)
            same = all(np.array_equal(a.values, b.values) for a, b in pairs)
            least = 0.0 if same else 1 / sum(counts[task] for task in tasks)
            row = {"task": "overall", "metric": rule}
            rows.append(row | _score(sides, least))
    return Comparison(
        (_about(one), _about(other)),
        pd.DataFrame(list(_spec(one, other)), columns=SPEC, dtype=object),
        pd.DataFrame(rows, columns=SCORES),
        pd.concat(changed, ignore_index=True),
        counts,
    )


def _about(found: ResolvedVariant) -> str:
    stages = ", ".join(f"{stage} {key}" for stage, key in found.stages.items())
    when = f"trained {_trained(found):%Y-%m-%d %H:%M}" if found.chosen else "not trained yet"
    return f"{found.paper}/{found.name} ({stages}), {when}"


def _trained(found: ResolvedVariant) -> datetime:
    """Return when the last of a variant's trainings ended; long ago if none did."""
    runs = [(key, seed) for seed, keys in found.chosen.items() for key in keys.values()]
    paths = (node_folder(found.root, "train", *run) / "history.parquet" for run in runs)
    ends = [max(read_file(path, ["time"])["time"].to_pylist()) for path in paths]
    return datetime.fromtimestamp(max(ends, default=0))


def _predicted(found: ResolvedVariant, seeds: Sequence[int], task: str) -> Predicted:
    """Return what the trained seeds predict of a task on dev."""
    folders = (node_folder(found.root, "train", found.chosen[n][task], n) for n in seeds)
    return read_predicted([folder / "predictions.parquet" for folder in folders], task)


def _spec(one: ResolvedVariant, other: ResolvedVariant) -> Iterator[tuple[Any, ...]]:
    """Yield (stage, name, A, B) of all that differs; stages match by name, or by place."""
    pairs = [(stage, stage) for stage in one.stages]
    if one.stages.keys() != other.stages.keys():
        pairs = list(zip_longest(one.stages, other.stages))
    for stage, their in pairs:
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


def _score(sides: Sequence[Sample], least: float | None) -> dict[str, Any]:
    """Return both mean scores and their difference; its interval, if they have the same examples.

    `least` is the weight of an example then.
    """
    one, other = sides
    means = [float(side.values.mean()) for side in sides]
    row = {"A": means[0], "B": means[1], "difference": means[1] - means[0]}
    row |= {"seeds_A": len(one.values), "seeds_B": len(other.values)}
    if least is None:
        return row
    low, high = difference(other, one, least).interval()
    return row | {"low": low, "high": high}


def _overall_rule(found: ResolvedVariant) -> tuple[str, tuple[str, ...]]:
    """Return the rule and the tasks of the overall score of a variant's paper; none if unknown."""
    paper = plan_of(found.root, found.paper).get("papers", {}).get(found.paper)
    if not paper:
        return "", ()
    spec = read_description(found.root, "scores", paper["scores"])["spec"]
    return paper["rule"], tuple(spec["overall_tasks"])


def _changed(task: str, a: Predicted, b: Predicted, one: ResolvedVariant) -> pd.DataFrame:
    """Return the examples that most seeds of one side get right, and of the other wrong."""
    before, after = over_runs(task, a), over_runs(task, b)
    was, now = before.right / len(a.prediction), after.right / len(b.prediction)
    frame = pd.DataFrame(
        {
            "task": task,
            "change": np.where(was > now, WORSE, BETTER),
            "id": a.ids,
            "label": a.label,
            "A": before.said,
            "B": after.said,
            "moved": np.abs(after.error - before.error),
        }
    )[(was - 0.5) * (now - 0.5) < 0]
    frame = frame.sort_values("moved", ascending=False, kind="stable")
    return frame.merge(sentences(one.runs([task])[task]), how="left", on="id")[EXAMPLES]
