"""How two variants differ, or one before and after an edit: settings, dev scores, dev examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, zip_longest
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pandas as pd

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.bootstrap import Sample, combined, constant, difference, sample
from minbert.evaluate.predictions import Predicted, read_predicted
from minbert.evaluate.reading import METRIC_TITLES
from minbert.evaluate.text import one_line
from minbert.explore.run import TEXTS, sentences
from minbert.plan import difference as plans
from minbert.predict.resolve_run import ResolvedVariant, earlier, find, plan_of
from minbert.report.worst import over_runs
from minbert.spec.task import TASKS
from minbert.store.job import node_folder
from minbert.store.plans import read_description

SPEC = ["stage", "what", "name", "A", "B"]
SCORES = ["task", "metric", "A", "B", "difference", "low", "high", "seeds_A", "seeds_B", "paired"]
EXAMPLES = ["task", "change", "id", "label", "A", "B", *TEXTS]
WORSE, BETTER = "right to wrong", "wrong to right"
SHOWN, LONGEST = 3, 100
"""Examples of each task and change in the text, and characters of a sentence there."""


Sides = Sequence[Sample]
"""The scores of A and B by seed."""


@dataclass(frozen=True)
class Comparison:
    """How B differs from A; `about` says of each what it is. `str()` gives it as text.

    `spec` has a row for each setting, module of code or input that differs, by stage. `scores` has
    the mean dev score of each on every task that both have, and of all by the paper's rule, with
    the difference B - A and its 95 % interval; none where their dev examples differ. It is that of
    the claims (docs/statistics.md, Method), but for the variance over seeds, which is the two
    variants' own. If both have the same seeds, it is `paired` by seed; by example it always is.
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
        lines = [f"{side}  {about}" for side, about in zip("AB", self.about, strict=True)]
        blocks = ["\n".join(lines), "\n".join(self._spec()), "\n".join(self._scores())]
        return "\n\n".join([*blocks, *("\n".join(self._examples(task)) for task in self.counts)])

    def _spec(self) -> Iterator[str]:
        if self.spec.empty:
            yield "the same training"
        several = self.spec["stage"].nunique() > 1
        for stage, rows in self.spec.groupby("stage", sort=False):
            if several:
                yield f"stage {stage}"
            for what, name, one, other in rows[SPEC[1:]].itertuples(index=False):
                if what == "setting":
                    yield plans.change(name, one, other)
                else:
                    yield f"code of {name} changed" if what == "code" else f"{name} is another"

    def _scores(self) -> Iterator[str]:
        if self.scores.empty:
            yield "no task has dev scores of both"
            return
        shown = self.scores.copy()
        known = shown["low"].notna()
        bounds = shown["low"].map("{:+.3f}".format) + " to " + shown["high"].map("{:+.3f}".format)
        shown["95 % interval"] = bounds.where(known, "other dev examples")
        shown["seeds"] = [f"{a}, {b}" for a, b in shown[["seeds_A", "seeds_B"]].to_numpy()]
        for name in ("A", "B"):
            shown[name] = shown[name].map("{:.3f}".format)
        shown["B - A"] = shown["difference"].map("{:+.3f}".format)
        columns = ["task", "metric", "A", "B", "B - A", "95 % interval", "seeds"]
        yield shown[columns].to_string(index=False)
        how = "paired by seed and example" if self.scores["paired"].all() else "paired by example"
        yield f"Dev; mean over seeds; interval over examples and seeds, {how}."

    def _examples(self, task: str) -> Iterator[str]:
        changed = self.examples[self.examples["task"] == task]
        sizes = {change: int((changed["change"] == change).sum()) for change in (WORSE, BETTER)}
        counts = ", ".join(f"{size} {change}" for change, size in sizes.items())
        yield f"{task}: {counts}, of {self.counts[task]} dev examples"
        for change in sizes:
            for row in changed[changed["change"] == change].head(SHOWN).itertuples():
                texts = [text for text in (row.sentence1, row.sentence2) if isinstance(text, str)]
                said = " | ".join(shorten(one_line(t), LONGEST, placeholder=" ...") for t in texts)
                said = said or f"({row.id}: its text is not here)"
                yield f"  {change}, {row.A:.3g} -> {row.B:.3g}, label {row.label:.3g}: {said}"


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
    if first.stages == published.stages:
        found = next(earlier(published), None)
        if found is None:
            raise UserError(
                f"{root}: {first.paper}: variant '{first.name}' has no earlier result in the store "
                "(`minbert gc --delete` removes what the configuration no longer needs); name a "
                "second variant to compare it with"
            )
        first = found
    in_order = sorted((first, published), key=lambda found: (not found.chosen, _trained(found)))
    return _compare(*in_order)


def _compare(one: ResolvedVariant, other: ResolvedVariant) -> Comparison:
    rows: list[dict[str, Any]] = []
    about, changed = [], []
    compared: dict[str, tuple[Sides, list[list[int]]]] = {}
    counts: dict[str, int] = {}
    for side in (one, other):
        stages = ", ".join(f"{stage} {key}" for stage, key in side.stages.items())
        when = f"trained {_trained(side):%Y-%m-%d %H:%M}" if side.chosen else "not trained yet"
        about.append(f"{side.paper}/{side.name} ({stages}), {when}")
    for task in (task for task in one.tasks if task in other.tasks):
        seeds = [sorted(n for n, keys in of.chosen.items() if task in keys) for of in (one, other)]
        if not all(seeds):
            continue
        a, b = (_predicted(*of, task) for of in zip((one, other), seeds, strict=True))
        sides = [sample(task, of.prediction, of.label) for of in (a, b)]
        row = {"task": task, "metric": METRIC_TITLES[TASKS[task].metric]}
        rows.append(row | _means(sides))
        if a.ids == b.ids and np.array_equal(a.label, b.label):
            # An example's weight, which a score that counts examples may hide; not of the same.
            counts_examples = TASKS[task].kind != "regression"
            same = np.array_equal(a.prediction, b.prediction)
            least = 1 / len(a.ids) if counts_examples and not same else 0.0
            rows[-1] |= _interval(sides, seeds[0] == seeds[1], least)
            compared[task] = sides, seeds
            counts[task] = len(a.ids)
            changed.append(_changed(task, a, b, one))
    rows += _overall(one, other, compared, counts)
    return Comparison(
        (about[0], about[1]),
        pd.DataFrame(list(_spec(one, other)), columns=SPEC, dtype=object),
        pd.DataFrame(rows, columns=SCORES),
        pd.concat(changed, ignore_index=True) if changed else pd.DataFrame(columns=EXAMPLES),
        counts,
    )


def _trained(found: ResolvedVariant) -> datetime:
    """Return when the last of a variant's trainings ended; long ago if none did."""
    runs = [
        node_folder(found.root, "train", key, seed)
        for seed, keys in found.chosen.items()
        for key in keys.values()
    ]
    times = (read_file(run / "history.parquet", ["time"])["time"].to_pylist() for run in runs)
    return datetime.fromtimestamp(max(chain(*times), default=0))


def _predicted(found: ResolvedVariant, seeds: Sequence[int], task: str) -> Predicted:
    """Return what the trained seeds predict of a task on dev."""
    folders = (node_folder(found.root, "train", found.chosen[n][task], n) for n in seeds)
    return read_predicted([folder / "predictions.parquet" for folder in folders], task)


def _spec(one: ResolvedVariant, other: ResolvedVariant) -> Iterator[tuple[Any, ...]]:
    """Yield (stage, what, name, A, B) of all that differs; stages match by name, or by place."""
    pairs = [(stage, stage) for stage in one.stages]
    if one.stages.keys() != other.stages.keys():
        pairs = list(zip_longest(one.stages, other.stages))
    for stage, their in pairs:
        name = stage if stage == their else f"{stage} / {their}"
        if stage is None or their is None:
            yield name, "setting", "stage", stage, their
            continue
        old, new = (
            read_description(side.root, "train", side.stages[of])
            for side, of in ((one, stage), (other, their))
        )
        found = plans.difference(old, new)
        settings = {n: pair for n, pair in found.spec.items() if not n.startswith("derived.")}
        settings |= dict(plans.changes(old["spec"]["stage"], new["spec"]["stage"]))
        yield from ((name, "setting", of, *pair) for of, pair in settings.items())
        # A module or an input that only one of them has follows from a setting.
        for what, differing in (("code", found.code), ("input", found.needs)):
            yield from ((name, what, of, *pair) for of, pair in differing.items() if all(pair))


def _means(sides: Sides) -> dict[str, Any]:
    one, other = (float(side.values.mean()) for side in sides)
    seeds = {f"seeds_{name}": len(side.values) for name, side in zip("AB", sides, strict=True)}
    return {"A": one, "B": other, "difference": other - one, **seeds, "paired": False}


def _interval(sides: Sides, paired: bool, least: float) -> dict[str, Any]:
    """Return the interval of the difference; `least` is an example's weight."""
    one, other = sides
    if paired:
        change = Sample(other.values - one.values, other.draws - one.draws)
        found = difference(change, constant(0.0), least)
    else:
        found = difference(other, one, least)
    return dict(zip(("low", "high"), found.interval(), strict=True)) | {"paired": paired}


def _overall(
    one: ResolvedVariant,
    other: ResolvedVariant,
    compared: Mapping[str, tuple[Sides, list[list[int]]]],
    counts: Mapping[str, int],
) -> Iterator[dict[str, Any]]:
    """Yield the overall scores, if both have the same rule and tasks, all with the same seeds."""
    rule, tasks = _overall_rule(one)
    if (rule, tasks) != _overall_rule(other) or len(tasks) < 2 or not set(tasks) <= counts.keys():
        return
    (a, b), *others = (compared[task][1] for task in tasks)
    if all(seeds == [a, b] for seeds in others):
        sides = [combined({task: compared[task][0][n] for task in tasks}, rule) for n in (0, 1)]
        pairs = (compared[task][0] for task in tasks)
        same = all(np.array_equal(of_a.values, of_b.values) for of_a, of_b in pairs)
        least = 0.0 if same else 1 / sum(counts[task] for task in tasks)
        row = {"task": "overall", "metric": rule}
        yield row | _means(sides) | _interval(sides, a == b, least)


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
    sides = [(before.right, len(a.prediction)), (after.right, len(b.prediction))]
    right = [2 * of_runs > runs for of_runs, runs in sides]
    wrong = [2 * of_runs < runs for of_runs, runs in sides]
    frame = pd.DataFrame(
        {
            "task": task,
            "change": np.where(right[0], WORSE, BETTER),
            "id": a.ids,
            "label": a.label,
            "A": before.said,
            "B": after.said,
            "moved": np.abs(after.error - before.error),
        }
    )[(right[0] & wrong[1]) | (wrong[0] & right[1])]
    run = one.runs([task])[task]
    frame = frame.sort_values("moved", ascending=False, kind="stable")
    return frame.merge(sentences(run), how="left", on="id")[EXAMPLES]
