"""One variant trained with one seed: its history, predictions, settings, weights and models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pandas as pd

from minbert.data.parquet import read_file
from minbert.predict import resolve_run
from minbert.predict.inputs import item
from minbert.predict.resolve_run import ResolvedVariant
from minbert.spec.task import TASKS
from minbert.store.job import node_folder
from minbert.store.plans import read_description

if TYPE_CHECKING:
    import torch

    from minbert.model.multitask import MultitaskModel

TEXTS = ["sentence1", "sentence2"]


class Run:
    """A variant trained with a seed, as far as it has finished.

    `paper`, `variant` and `seed` say which, `tasks` what it predicts. Each task is scored with the
    last stage that has it; those of a variant that is the best of others are stages of these.
    """

    def __init__(self, found: ResolvedVariant, seed: int) -> None:
        self.paper, self.variant, self.seed = found.paper, found.name, seed
        self._found, self._own = found, TASKS.own
        self.tasks = tuple(task for task in found.tasks if task in found.chosen[seed])
        self._runs = found.runs(self.tasks, seed)

    def __repr__(self) -> str:
        return f"<{self.paper}/{self.variant}, seed {self.seed}: {', '.join(self.tasks)}>"

    @property
    def spec(self) -> dict[str, dict[str, Any]]:
        """Every setting of each stage, with defaults filled in: {stage: settings}."""
        return dict(stage_settings(self._found))

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
            frames.append(frame.merge(sentences(run), how="left", on="id"))
        return pd.concat(frames, ignore_index=True)

    def weights(self, task: str | None = None) -> dict[str, torch.Tensor]:
        """Return the trained tensors by name, those of the best epoch, on the CPU.

        They are those of the stage that `task` is scored with; it may be left out if there is only
        one. A frozen encoder is not among them. Raises `UserError` if they were deleted.
        """
        from minbert.model.weights import load_weights

        keys = {run.key for run in self._runs.values()}
        task = self.tasks[0] if task is None and len(keys) == 1 else task
        return load_weights(self._of(task).file("model.safetensors"))

    def model(self, task: str | None = None, device: str = "auto") -> Model:
        """Return the model of `task`, to call on sentences; `device` as in config.yaml."""
        return Model(self._of(task), device)

    def _of(self, task: str | None) -> resolve_run.Run:
        TASKS.use(self._own)  # Results with other tasks may have been looked at since.
        return self._found.run(task, self.seed)


class Model:
    """A trained model of one task; `module` is the torch module, in evaluation mode."""

    def __init__(self, run: resolve_run.Run, device: str) -> None:
        from minbert.predict.predictor import Predictor

        self._predictor = Predictor.of(run, device)

    @property
    def module(self) -> MultitaskModel:
        """The model, of all of its stage's tasks."""
        return self._predictor.model

    def __call__(
        self, sentences: str | Sequence[str], others: str | Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Return a row for each of the `sentences`, or pairs of them and `others`.

        Columns are those of `minbert predict` (docs/predicting.md). Raises `UserError` for a
        sentence that is empty or lacks its partner.
        """
        given = [sentences] if others is None else [sentences, others]
        columns = [[of] if isinstance(of, str) else of for of in given]
        rows = enumerate(zip_longest(*columns))
        items = [item(self._predictor.task, f"example {n}", each) for n, each in rows]
        return pd.DataFrame(self._predictor.rows(items))


def stage_settings(found: ResolvedVariant) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each stage of a variant, trained or not, with its settings."""
    for stage, key in found.stages.items():
        yield stage, read_description(found.root, "train", key)["spec"]["stage"]


def sentences(run: resolve_run.Run) -> pd.DataFrame:
    """Return the texts of a task's examples: columns `id`, `sentence1`, `sentence2`.

    There are no rows if the table was deleted.
    """
    root, tokens = run.variant.root, run.job.described["needs"][f"tokens.{run.task}"]
    examples = read_description(root, "tokens", tokens["key"])["needs"]["examples"]
    path = node_folder(root, examples["kind"], examples["key"]) / examples["file"]
    if not path.is_file():
        return pd.DataFrame(columns=["id", *TEXTS], dtype=object)
    return read_file(path, ("id", *TEXTS)).to_pandas()
