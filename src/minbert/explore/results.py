"""What a results folder holds, as data frames: `minbert.open` (docs/predicting.md)."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.reading import SCHEMA
from minbert.explore.run import Run, stage_settings
from minbert.predict.resolve_run import ResolvedVariant, find, plans, variants
from minbert.store.job import node_folder
from minbert.store.node import seed_folders
from minbert.store.plans import VARIANT_COLUMNS, score_tables, sound
from minbert.track.journal import Attempt, newest_attempts

if TYPE_CHECKING:
    from minbert.explore.compare import Comparison

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
        variants(self.root)  # An empty or wrong folder is refused here.

    def __repr__(self) -> str:
        states = self.runs["state"].value_counts()
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        names = self.variants[["paper", "variant"]].drop_duplicates()
        return (
            f"<results in {self.root}: {len(names)} variants of {', '.join(names.paper.unique())}; "
            f"runs: {counts}>"
        )

    @property
    def variants(self) -> pd.DataFrame:
        """Every stage of every variant, with its tasks, key, start and label (`variants.tsv`)."""
        rows = chain(*variants(self.root).values())
        return pd.DataFrame(rows, columns=list(VARIANT_COLUMNS))

    @property
    def runs(self) -> pd.DataFrame:
        """Every training that was asked for: a row for each stage and seed.

        `state` is finished, running, failed (with the `error`), interrupted or not run. Of
        finished runs there are the best epoch and its score, steps, seconds, tokens a second,
        device, precision and number of parameters.
        """
        newest, rows = newest_attempts(self.root), []
        planned: dict[str, list[int]] = {}
        for record in reversed(plans(self.root)):
            planned |= {paper: facts["seeds"] for paper, facts in record["papers"].items()}
        for row in chain(*variants(self.root).values()):
            key = row["key"]
            trained = seed_folders(self.root / "store" / "train" / key)
            for seed in sorted({*planned[row["paper"]], *trained}):
                folder = node_folder(self.root, "train", key, seed)
                rows.append({**row, "seed": seed, **_run(folder, newest.get((key, str(seed))))})
        return pd.DataFrame(rows, columns=list(RUNS))

    @property
    def scores(self) -> pd.DataFrame:
        """The score table, with the columns of `scores.parquet` (docs/pipeline.md).

        After that of the whole grids come variants that were run as a part alone. It is empty
        before results are published for the first time.
        """
        found = pd.DataFrame(columns=SCHEMA.names)
        for path in score_tables(self.root):
            more = read_file(path).to_pandas()
            known = pd.MultiIndex.from_frame(found[["paper", "variant"]])
            new = more[~pd.MultiIndex.from_frame(more[["paper", "variant"]]).isin(known)]
            found = pd.concat([found, new], ignore_index=True) if len(found) else new
        return found

    def specs(self, names: str = "*") -> pd.DataFrame:
        """Return every setting of each stage, trained or not: a row a stage, a column a setting.

        Columns of nested settings have dots: `optimiser.lr`, `tasks.sst.head.depth`.
        """
        rows = [
            {"paper": found.paper, "variant": found.name, "stage": stage, **settings}
            for found in self._named(names)
            for stage, settings in stage_settings(found)
        ]
        return pd.json_normalize(rows)

    def histories(self, names: str = "*", seed: int | None = None) -> pd.DataFrame:
        """Return the `history` of finished runs, with columns paper, variant and seed."""
        return self._joined("history", names, seed)

    def predictions(self, names: str = "*", seed: int | None = None) -> pd.DataFrame:
        """Return the `predictions` of finished runs, with columns paper, variant and seed."""
        return self._joined("predictions", names, seed)

    def run(self, name: str, seed: int | None = None) -> Run:
        """Return a variant trained with `seed` (default: the smallest trained), all of its tasks.

        Raises `UserError` for an unknown variant, and for one that is not trained yet.
        """
        found = find(self.root, name)
        first, *_ = found.runs(found.tasks, seed).values()
        return Run(found, first.seed)

    def compare(self, one: str, other: str | None = None) -> Comparison:
        """Return how two variants differ, or a variant and its latest earlier result.

        Raises `UserError` for an unknown variant, and for one without an earlier result.
        """
        from minbert.explore.compare import compare  # matplotlib comes with it

        return compare(self.root, one, other)

    def _joined(self, what: str, names: str, seed: int | None) -> pd.DataFrame:
        runs = [
            Run(found, each)
            for found in self._named(names)
            for each in sorted(found.chosen)
            if seed in (None, each)
        ]
        if not runs:
            of_seed = "" if seed is None else f" with seed {seed}"
            raise UserError(f"{self.root}: no run of '{names}'{of_seed} has finished yet")
        frames = [
            getattr(run, what).assign(paper=run.paper, variant=run.variant, seed=run.seed)
            for run in runs
        ]
        return pd.concat(frames, ignore_index=True)

    def _named(self, names: str) -> Iterator[ResolvedVariant]:
        # The best of others are listed in the scores alone.
        scored = self.scores[["paper", "variant"]].itertuples(index=False, name=None)
        known = dict.fromkeys([*variants(self.root), *map("/".join, scored)])
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
