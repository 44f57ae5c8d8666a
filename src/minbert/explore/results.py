"""What a results folder holds, as data frames, tensors and models (docs/predicting.md)."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.reading import SCHEMA
from minbert.predict import resolve_run
from minbert.predict.resolve_run import ResolvedVariant, find, shown_plans
from minbert.spec.task import use_tasks_of
from minbert.store.job import node_folder
from minbert.store.node import seed_folders
from minbert.store.plans import VARIANT_COLUMNS, score_tables, sound, stage_rows
from minbert.track.journal import Attempt, newest_attempts

if TYPE_CHECKING:
    import torch

    from minbert.explore.compare import Comparison
    from minbert.predict.predictor import Predictor

RUNS = (
    *("paper", "variant", "stage", "seed", "key", "state", "error", "best_epoch", "best_score"),
    *("steps", "seconds", "tokens_per_second", "device", "precision", "parameters"),
)


class Results:
    """A results folder, which may still be written; each call reads it anew.

    A variant is named `VARIANT` or `PAPER/VARIANT`, and `VARIANT@KEY` as an earlier plan had it.
    What takes `names` takes patterns too: `hybrid-bert/*`.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        shown_plans(self.root)  # An empty or wrong folder is refused here.

    def __repr__(self) -> str:
        return f"<results in {self.root}: {self.runs['state'].value_counts().to_dict()}>"

    @property
    def variants(self) -> pd.DataFrame:
        """Every stage of every variant, with its tasks, key, start and label (`variants.tsv`).

        They are those published of whole grids, then those of a part alone; before the first
        publication, those of the newest plan.
        """
        rows = chain(*(record["variants"] for record in shown_plans(self.root)))
        found = pd.DataFrame(rows, columns=[*VARIANT_COLUMNS])
        return found.drop_duplicates(["paper", "variant", "stage"], ignore_index=True)

    @property
    def runs(self) -> pd.DataFrame:
        """Every training that was asked for: a row for each stage and seed.

        `state` is finished, running, failed (with the `error`), interrupted or not run. Of
        finished runs there are the best epoch and its score, steps, seconds, tokens a second,
        device, precision and number of parameters.
        """
        newest, rows = newest_attempts(self.root), []
        for record in shown_plans(self.root):
            for row in stage_rows(record["variants"]):
                trained = seed_folders(self.root / "store" / "train" / row["key"])
                for seed in sorted({*record["papers"][row["paper"]]["seeds"], *trained}):
                    attempt = newest.get((row["key"], str(seed)))
                    folder = node_folder(self.root, "train", row["key"], seed)
                    rows.append({**row, "seed": seed, **_run(folder, attempt)})
        found = pd.DataFrame(rows, columns=[*RUNS])
        return found.drop_duplicates(["paper", "variant", "stage", "seed"], ignore_index=True)

    @property
    def scores(self) -> pd.DataFrame:
        """The score table, with the columns of `scores.parquet` (docs/pipeline.md).

        After that of the whole grids come variants that were run as a part alone. It is empty
        before results are published for the first time.
        """
        tables = pa.concat_tables([SCHEMA.empty_table(), *map(read_file, score_tables(self.root))])
        return tables.to_pandas().drop_duplicates(SCHEMA.names[:6], ignore_index=True)

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
        found = find(self.root, name)
        return Run(found, next(iter(found.runs(seed=seed).values())).seed)

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
            for each in sorted({*chain(*found.chosen.values())})
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


def _run(folder: Path, attempt: Attempt | None) -> dict[str, Any]:
    """Return the state of a run, and what its record says."""
    if record := sound(folder / "run.json"):
        return {**record, **record.get("outcome", {}), **record["environment"], "state": "finished"}
    if attempt is None or (end := attempt.end()).get("status") == "FINISHED":
        # Its files were deleted since.
        return {"state": "not run"}
    if attempt.alive():
        return {"state": "running"}
    state = "failed" if end.get("status") == "FAILED" else "interrupted"
    return {"state": state, "error": end.get("error")}


class Run:
    """A variant trained with a seed, as far as it has finished.

    `paper`, `variant` and `seed` say which, `tasks` what it predicts. Each task is scored with the
    last stage that has it; those of a variant that is the best of others are stages of these.
    `spec` has every setting of each stage, with defaults filled in: {stage: settings}.
    """

    def __init__(self, found: ResolvedVariant, seed: int) -> None:
        self.paper, self.variant, self.seed = found.paper, found.name, seed
        self.tasks = tuple(task for task, runs in found.chosen.items() if seed in runs)
        self.spec = found.settings
        self._found, self._runs = found, found.runs(self.tasks, seed)

    def __repr__(self) -> str:
        return f"<{self.paper}/{self.variant}, seed {self.seed}: {', '.join(self.tasks)}>"

    @property
    def history(self) -> pd.DataFrame:
        """All measured values, stage by stage: the columns of `history.parquet`, and `stage`."""
        frames = []
        for stage, key in self._found.stages.items():
            path = node_folder(self._found.root, "train", key, self.seed) / "history.parquet"
            if path.is_file():
                frames.append(read_file(path).to_pandas().assign(stage=stage))
        return pd.concat(frames, ignore_index=True)

    @property
    def predictions(self) -> pd.DataFrame:
        """Each task's predictions on dev and test: `predictions.parquet`, and the sentences.

        The sentences are None if their table is no longer in the store.
        """
        frames = []
        for task, run in self._runs.items():
            path = run.file("predictions.parquet")
            frame = read_file(path, where={"task": task}).to_pandas()
            frames.append(frame.merge(run.sentences().to_pandas(), how="left", on="id"))
        return pd.concat(frames, ignore_index=True)

    def weights(self, task: str | None = None) -> dict[str, torch.Tensor]:
        """Return the trained tensors by name, those of the best epoch, on the CPU.

        They are those of the stage that `task` is scored with; it may be left out if there is only
        one. A frozen encoder is not among them. Raises `UserError` if they were deleted.
        """
        from minbert.model.weights import load_weights

        if len({run.key for run in self._runs.values()}) == 1:
            task = task or self.tasks[0]
        return load_weights(self._of(task).file("model.safetensors"))

    def model(self, task: str | None = None, device: str = "auto") -> Predictor:
        """Return the model of `task`, to call on sentences; `device` as in config.yaml."""
        from minbert.predict.predictor import Predictor

        return Predictor.of(self._of(task), device)

    def _of(self, task: str | None) -> resolve_run.Run:
        use_tasks_of(self._found.record)  # Others may have been looked at since.
        return self._found.run(task, self.seed)
