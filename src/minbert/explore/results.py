"""What a results folder holds, as data frames, tensors and models (docs/predicting.md)."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence, Sized
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.reading import SCHEMA
from minbert.predict.resolve_run import ResolvedVariant, TrainedTask, find, plans
from minbert.spec.task import use_tasks_of
from minbert.store.job import node_folder
from minbert.store.plans import ONLY, SCORES, VARIANT_COLUMNS, published_plans

if TYPE_CHECKING:
    import torch

    from minbert.explore.compare import Comparison
    from minbert.predict.predictor import Predictor


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

        They are those published of whole grids, then those of a part alone; before the first
        publication, those of the newest plan.
        """
        shown = plans(self.root)[: len(published_plans(self.root)) or 1]
        parts = [record["variants"] for record in shown]
        return _of_first(pd.DataFrame(chain(*parts), columns=[*VARIANT_COLUMNS]), parts)

    @property
    def scores(self) -> pd.DataFrame:
        """The score table, with the columns of `scores.parquet` (docs/pipeline.md).

        After that of the whole grids come variants that were run as a part alone. It is empty
        before results are published for the first time.
        """
        paths = filter(Path.is_file, (self.root / SCORES, self.root / ONLY / SCORES))
        tables = [SCHEMA.empty_table(), *map(read_file, paths)]
        found = pa.concat_tables(tables, promote_options="default").to_pandas()
        return _of_first(found, tables)

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
        from minbert.explore.compare import compare  # matplotlib comes with it

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


def _of_first(found: pd.DataFrame, parts: Sequence[Sized]) -> pd.DataFrame:
    """Return the rows of each variant from the first of `parts` that has it; `found` has all."""
    part = pd.Series(np.repeat(range(len(parts)), [*map(len, parts)]))
    first = part.groupby([found["paper"], found["variant"]]).transform("min")
    return found[part == first].reset_index(drop=True)


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
