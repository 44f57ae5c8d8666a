"""What a results folder holds, as data frames, tensors and models (docs/predicting.md).

Two variants are compared, or one before and after an edit: settings, dev scores, dev examples.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.bootstrap import System, difference, resampled
from minbert.evaluate.reading import SCHEMA, Predicted, over_runs, read_predicted
from minbert.evaluate.scoring import Floats, averaged
from minbert.plan.describe import changes, facts
from minbert.predict.resolve_run import (
    TEXTS,
    ResolvedVariant,
    TrainedTask,
    find,
    plans,
    versions,
)
from minbert.spec.task import use_tasks_of
from minbert.store.job import node_folder
from minbert.store.plans import (
    SCORES,
    VARIANT_COLUMNS,
    published_plans,
    read_description,
)

if TYPE_CHECKING:
    import torch

    from minbert.predict.predictor import Predictor

EXAMPLES = ["task", "change", "id", "label", "A", "B", *TEXTS[1:]]
SHOWN, LONGEST = 3, 100
"""Examples of each task and change in the text, and characters of a sentence there."""


class Results:
    """A results folder, which may still be written; each call reads it anew.

    A variant is named `VARIANT` or `PAPER/VARIANT`, and `VARIANT@KEY` as an earlier plan had it.
    What takes `names` takes patterns too: `hybrid-bert/*`.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        plans(self.root)  # An empty or wrong folder is refused here.

    def __repr__(self) -> str:
        names = self.variants.groupby("paper", sort=False)["variant"].nunique()
        return f"<results in {self.root}: variants of {names.to_dict()}>"

    @property
    def variants(self) -> pd.DataFrame:
        """Every stage of every variant, with its tasks, key, start and label (`variants.tsv`).

        They are those published of whole grids and of a part, of what both have those of the newer;
        before the first publication, those of the newest plan.
        """
        shown = plans(self.root)[: len(published_plans(self.root)) or 1]
        return _of_first(pd.DataFrame(of["variants"], columns=[*VARIANT_COLUMNS]) for of in shown)

    @property
    def scores(self) -> pd.DataFrame:
        """The score table, with the columns of `scores.parquet` (docs/pipeline.md).

        It is of the same plans. It is empty before results are published for the first time.
        """
        paths = (folder / SCORES for folder in published_plans(self.root).values())
        tables = [*map(read_file, filter(Path.is_file, paths))] or [SCHEMA.empty_table()]
        return _of_first(table.to_pandas() for table in tables)

    def specs(self, names: str = "*") -> pd.DataFrame:
        """Return every setting of each stage, trained or not: a row a stage, a column a setting.

        Columns of nested settings have dots: `optimiser.lr`, `tasks.sst.head.depth`.
        """
        rows = [
            {"paper": found.paper, "variant": found.name, "stage": stage, **settings}
            for found in self._named(names)
            for stage, settings in found.settings.items()
        ]
        return pd.json_normalize(rows)

    def histories(self, names: str = "*", seed: int | None = None) -> pd.DataFrame:
        """Return the `history` of finished runs, with columns paper, variant and seed."""
        return self._of_runs("history", names, seed)

    def predictions(self, names: str = "*", seed: int | None = None) -> pd.DataFrame:
        """Return the `predictions` of finished runs, with columns paper, variant and seed."""
        return self._of_runs("predictions", names, seed)

    def run(self, name: str, seed: int | None = None) -> Run:
        """Return a variant trained with `seed` (default: the smallest trained), all of its tasks.

        Raises `UserError` for an unknown variant, and for one that is not trained yet.
        """
        return Run(find(self.root, name), seed)

    def compare(self, one: str, other: str | None = None) -> Comparison:
        """Return how two variants differ, or a variant and its latest earlier result.

        Raises `UserError` for an unknown variant, and for one without an earlier result.
        """
        return compare(self.root, one, other)

    def _of_runs(self, what: str, names: str, seed: int | None) -> pd.DataFrame:
        frames = [
            getattr(Run(found, each), what).assign(paper=found.paper, variant=found.name, seed=each)
            for found in self._named(names)
            for each in found.seeds()
            if seed in (None, each)
        ]
        if not frames:
            of_seed = "" if seed is None else f" with seed {seed}"
            raise UserError(f"{self.root}: no run of '{names}'{of_seed} has finished yet")
        return pd.concat(frames, ignore_index=True)

    def _named(self, names: str) -> Iterator[ResolvedVariant]:
        # The best of others are listed in the scores alone.
        rows = pd.concat([self.variants, self.scores])
        known = (rows["paper"] + "/" + rows["variant"]).unique()
        wanted = fnmatch.filter(known, names if "/" in names else f"*/{names}")
        for name in wanted or [names]:  # An earlier plan may have had it.
            try:
                yield find(self.root, name)
            except UserError:  # Its results were deleted: others are still shown.
                if len(wanted) < 2:
                    raise


def _of_first(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of each variant from the first of `parts` that has it."""
    found = pd.concat([rows.assign(part=n) for n, rows in enumerate(parts)], ignore_index=True)
    first = found.groupby(["paper", "variant"])["part"].transform("min")
    return found[found.pop("part") == first].reset_index(drop=True)


class Run:
    """A variant trained with a seed.

    `paper`, `variant` and `seed` say which, `tasks` what it predicts. Each task is scored with the
    last stage that has it; those of a variant that is the best of others are stages of these.
    `spec` has every setting of each stage, with defaults filled in: {stage: settings}.
    """

    def __init__(self, found: ResolvedVariant, seed: int | None) -> None:
        self._found, self._runs = found, found.runs(seed=seed)
        self.paper, self.variant, self.spec = found.paper, found.name, found.settings
        self.tasks = (*self._runs,)
        self.seed = self._runs[self.tasks[0]].seed

    def __repr__(self) -> str:
        return f"<{self.paper}/{self.variant}, seed {self.seed}: {', '.join(self.tasks)}>"

    @property
    def history(self) -> pd.DataFrame:
        """All measured values, stage by stage: the columns of `history.parquet`, and `stage`."""
        root, seed = self._found.root, self.seed
        frames = [
            read_file(path).to_pandas().assign(stage=stage)
            for stage, key in self._found.stages.items()
            if (path := node_folder(root, "train", key, seed) / "history.parquet").is_file()
        ]
        return pd.concat(frames, ignore_index=True)

    @property
    def predictions(self) -> pd.DataFrame:
        """Each task's predictions on dev and test: `predictions.parquet`, and the sentences.

        The sentences are None if their table is no longer in the store.
        """
        frames = []
        for task, run in self._runs.items():
            said = read_file(run.file("predictions.parquet"), where={"task": task}).to_pandas()
            frames.append(said.merge(run.sentences().to_pandas(), how="left", on="id"))
        return pd.concat(frames, ignore_index=True)

    def weights(self, task: str | None = None) -> dict[str, torch.Tensor]:
        """Return the trained tensors by name, those of the best epoch, on the CPU.

        They are those of the stage that `task` is scored with; it may be left out if it is the only
        one. A frozen encoder is not among them. Raises `UserError` if they were deleted.
        """
        from minbert.model.weights import load_weights

        return load_weights(self._of(task).file("model.safetensors"))

    def model(self, task: str | None = None, device: str = "auto") -> Predictor:
        """Return the model of `task`, to call on sentences; `device` as in config.yaml."""
        from minbert.predict.predictor import Predictor

        return Predictor.of(self._of(task), device)

    def _of(self, task: str | None) -> TrainedTask:
        use_tasks_of(self._found.record)  # Others may have been looked at since.
        return self._found.run(task, self.seed)


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

        blocks = [
            "A  {}\nB  {}".format(*self.about),
            table(self.spec, "{:.3g}") if len(self.spec) else "the same training",
            f"{table(self.scores, '{:.3f}')}\nB - A on dev, with its 95 % interval over examples "
            "and, if there are several, seeds."
            if len(self.scores)
            else "no scores: one is not trained, or they have no task with the same examples",
        ]
        if len(self.examples):
            ways = self.examples.groupby(["task", "change"])
            shown = ways.head(SHOWN).dropna(axis=1, how="all")
            blocks += [ways.size().to_string(), table(shown, "{:.3g}")]
        return "\n\n".join(blocks)


def compare(root: Path, one: str, other: str | None = None) -> Comparison:
    """Return how the variant `other` differs from `one` (names as `resolve_run.find` takes them).

    Without `other`, two results of `one` are compared, in the order in which they were planned:
    what is published, or `@KEY` names, with the first of `versions` that was trained otherwise.
    """
    sides = [find(root, name) for name in (one, other) if name is not None]
    first = sides[0]
    if other is None:
        every = versions(root, f"{first.paper}/{first.name}")
        sides += [of for of in every if of.seeds() and of.stages != first.stages][:1]
        sides.sort(key=lambda of: of.record["written"])
    if len(sides) < 2:
        raise UserError(
            f"{root}: {first.paper}: variant '{first.name}' has no earlier result in the store "
            "(`minbert gc --delete` removes what the configuration no longer needs); name a "
            "second variant to compare it with"
        )
    first, second = sides
    scores, examples, changed = dict[str, Floats](), dict[str, int](), []
    counts = [len(of.seeds()) for of in sides]
    for task in first.chosen if all(counts) else ():
        with suppress(UserError):  # Only one of them has it, or their examples differ.
            runs = (of.run(task, seed) for of in sides for seed in of.seeds())
            read = read_predicted((run.file("predictions.parquet") for run in runs), task)
            scores[task] = resampled(task, read.prediction, read.label)
            examples[task] = len(read.ids)
            changed.append(_changed(task, read.split(counts), first))
    papers = (of.record["papers"][of.paper] for of in sides)
    (rule, overall), of_other = ((of["rule"], of.get("overall_tasks", [])) for of in papers)
    if (rule, overall) == of_other and overall and {*overall} <= scores.keys():
        scores[rule] = averaged({task: scores[task] for task in overall}, rule)
        examples[rule] = sum(examples[task] for task in overall)
    rows, columns = [], ["task", "A", "B", "difference", "low", "high", "seeds_A", "seeds_B", "n"]
    for measure, drawn in scores.items():
        a, b = (System(of) for of in np.split(drawn, counts[:1], axis=1))
        change = difference(b, a, 1 / examples[measure])
        scored = measure, a.scores[0].mean(), b.scores[0].mean(), change.value
        rows.append((*scored, *change.interval(), *counts, examples[measure]))
    return Comparison(
        (_about(first), _about(second)),
        pd.DataFrame(_spec(first, second), columns=["stage", "name", "A", "B"], dtype=object),
        pd.DataFrame(rows, columns=columns),
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
        old, new = (facts(read_description(one.root, "train", key)) if key else {} for key in keys)
        for of, pair in changes(old, new).items():
            # A module or an input that only one of them has follows from a setting.
            if of.startswith("stage") or (" " in of and all(pair)):
                yield " / ".join(dict.fromkeys(map(str, names))), of.removeprefix("stage."), *pair


def _changed(task: str, sides: Sequence[Predicted], one: ResolvedVariant) -> pd.DataFrame:
    """Return the examples that most seeds of one side get right, and of the other wrong."""
    old, new = (over_runs(task, side) for side in sides)
    known = {"id": sides[0].ids, "label": sides[0].label, "A": old.said, "B": new.said}
    frame = pd.DataFrame(known | {"task": task, "moved": np.abs(new.error - old.error)})
    frame["change"] = np.where(old.right > new.right, "right to wrong", "wrong to right")
    frame = frame[(old.right - 0.5) * (new.right - 0.5) < 0]
    frame = frame.sort_values("moved", ascending=False, kind="stable")
    return frame.merge(one.run(task).sentences().to_pandas(), how="left", on="id")[EXAMPLES]
