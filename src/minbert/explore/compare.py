"""How two variants differ, or one before and after an edit: settings, dev scores, dev examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from minbert.base.errors import UserError
from minbert.evaluate.bootstrap import System, difference, resampled
from minbert.evaluate.reading import Predicted, over_runs, read_predicted
from minbert.evaluate.scoring import Floats, averaged
from minbert.plan import describe as plans
from minbert.predict.resolve_run import TEXTS, ResolvedVariant, find, versions
from minbert.spec.protocol import OVERALL_TASKS
from minbert.store.plans import read_description

SPEC = ["stage", "name", "A", "B"]
SCORES = ["task", "A", "B", "difference", "low", "high", "seeds_A", "seeds_B", "n"]
EXAMPLES = ["task", "change", "id", "label", "A", "B", *TEXTS[1:]]
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
        def table(frame: pd.DataFrame, digits: str) -> str:
            return frame.to_string(
                index=False, na_rep="", float_format=digits.format, max_colwidth=LONGEST
            )

        blocks = ["\n".join(f"{side}  {of}" for side, of in zip("AB", self.about, strict=True))]
        blocks.append(table(self.spec, "{:.3g}") if len(self.spec) else "the same training")
        blocks.append(table(self.scores, "{:.3f}"))
        blocks[-1] += "\nB - A on dev, with its 95 % interval over examples and seeds."
        if len(self.examples):
            ways = self.examples.groupby(["task", "change"])
            blocks.append(ways.size().to_string())
            blocks.append(table(ways.head(SHOWN).dropna(axis=1, how="all"), "{:.3g}"))
        return "\n\n".join(blocks)


def compare(root: Path, one: str, other: str | None = None) -> Comparison:
    """Return how the variant `other` differs from `one` (names as `resolve_run.find` takes them).

    Without `other`, two results of `one` are compared, in the order in which they were planned:
    what is published, or `@KEY` names, with the first of `versions` that was trained otherwise.
    """
    first = find(root, one)
    if other is not None:
        return _compare(first, find(root, other))
    every = versions(root, f"{first.paper}/{first.name}")
    others = [of for of in every if of.seeds() and of.stages != first.stages]
    if not others:
        raise UserError(
            f"{root}: {first.paper}: variant '{first.name}' has no earlier result in the store "
            "(`minbert gc --delete` removes what the configuration no longer needs); name a "
            "second variant to compare it with"
        )
    return _compare(*sorted([first, others[0]], key=lambda of: of.record["written"]))


def _compare(one: ResolvedVariant, other: ResolvedVariant) -> Comparison:
    sides, scores, examples, changed = (one, other), dict[str, Floats](), dict[str, int](), []
    counts = [len(of.seeds()) for of in sides]
    for task in one.chosen if all(counts) else ():
        with suppress(UserError):  # Only one of them has it, or their examples differ.
            runs = (of.run(task, seed) for of in sides for seed in of.seeds())
            read = read_predicted((run.file("predictions.parquet") for run in runs), task)
            scores[task] = resampled(task, read.prediction, read.label)
            examples[task] = len(read.ids)
            changed.append(_changed(task, read.split(counts), one))
    rule, overall = _overall(one)
    if (rule, overall) == _overall(other) and {*overall} <= scores.keys():
        scores[rule] = averaged({task: scores[task] for task in overall}, rule)
        examples[rule] = sum(examples[task] for task in overall)
    rows = []
    for measure, drawn in scores.items():
        a, b = (System(of) for of in np.split(drawn, counts[:1], axis=1))
        change = difference(b, a, 1 / examples[measure])
        means = (side.scores[0].mean() for side in (a, b))
        rows.append((measure, *means, change.value, *change.interval(), *counts, examples[measure]))
    return Comparison(
        (_about(one), _about(other)),
        pd.DataFrame(_spec(one, other), columns=SPEC, dtype=object),
        pd.DataFrame(rows, columns=SCORES),
        pd.concat(changed or [pd.DataFrame(columns=EXAMPLES)], ignore_index=True),
    )


def _about(found: ResolvedVariant) -> str:
    stages = ", ".join(f"{stage} {key}" for stage, key in found.stages.items())
    when = f"planned {datetime.fromtimestamp(found.record['written']):%Y-%m-%d %H:%M}"
    return (
        f"{found.paper}/{found.name} ({stages}), {when}{'' if found.seeds() else ', not trained'}"
    )


def _spec(one: ResolvedVariant, other: ResolvedVariant) -> Iterator[tuple[Any, ...]]:
    """Yield (stage, name, A, B) of all that differs; stages match by place."""
    for stages in zip_longest(one.stages.items(), other.stages.items(), fillvalue=(None, "")):
        names, keys = zip(*stages, strict=True)
        old, new = (
            plans.facts(read_description(one.root, "train", key)) if key else {} for key in keys
        )
        for of, pair in plans.changes(old, new).items():
            # A module or an input that only one of them has follows from a setting.
            if of.startswith("stage") or (" " in of and all(pair)):
                yield " / ".join(dict.fromkeys(map(str, names))), of.removeprefix("stage."), *pair


def _overall(found: ResolvedVariant) -> tuple[str, list[str]]:
    """Return the rule and the tasks of the overall score of a variant's paper."""
    facts = found.record["papers"][found.paper]
    return facts["rule"], facts.get("overall_tasks", [*OVERALL_TASKS])


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
    return frame.merge(one.run(task).sentences().to_pandas(), how="left", on="id")[EXAMPLES]
