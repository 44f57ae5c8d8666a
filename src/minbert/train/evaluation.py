"""Dev scores after each epoch, and the predictions of the best and the last one."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from minbert.evaluate.scoring import score_task
from minbert.spec.stage import SelectionSplit, StageSpec
from minbert.spec.task import TASKS
from minbert.train.history import History
from minbert.train.selection import report_mask, selection_mask
from minbert.train.trainable import TrainableModel

PREDICTIONS = pa.schema(
    [
        ("id", pa.string()),
        ("task", pa.string()),
        ("split", pa.string()),
        ("prediction", pa.float64()),
        ("scores", pa.list_(pa.float32())),
        ("label", pa.float64()),
        ("last", pa.float64()),
    ]
)


class Evaluation:
    """Scores a model's trained tasks on dev, logs the scores, and keeps the outputs."""

    def __init__(self, spec: StageSpec, model: TrainableModel, history: History) -> None:
        self.spec = spec
        self.model = model
        self.history = history
        self.last: Mapping[str, Tensor] = {}  # dev outputs by task, of the last epoch
        self.best: Mapping[str, Tensor] = {}  # and of the best one, unless that was before a resume

    def score(self, step: int, epoch: int) -> tuple[dict[str, float], dict[str, float]]:
        """Return the scores on dev by task: those that are reported, those that choose the epoch.

        If a half of dev chooses, its scores are logged as split `selection`, the others' as `dev`.
        """
        self.model.module.eval()
        self.last = {task: self.model.outputs(task, "dev") for task in self.spec.trained_tasks}
        reported = self._score(step, epoch, "dev", report_mask)
        if self.spec.selection_split == "dev":
            return reported, reported
        return reported, self._score(step, epoch, "selection", selection_mask)

    def _score(
        self,
        step: int,
        epoch: int,
        split: str,
        mask: Callable[[Sequence[str], SelectionSplit], np.ndarray],
    ) -> dict[str, float]:
        """Return the scores of the last dev outputs within `mask`, and log them as `split`."""
        scores: dict[str, float] = {}
        log = partial(self.history.log, step, epoch, split)
        for task, outputs in self.last.items():
            examples, of_task = self.model.examples[task]["dev"], self.model.losses[task]
            within = torch.from_numpy(mask(examples.ids, self.spec.selection_split))
            rows = within.to(outputs.device)
            output, labels = outputs[rows], examples.labels[rows]
            prediction = of_task.prediction(output).cpu().numpy()
            scores[task] = score_task(task, prediction, labels.cpu().numpy())
            log(task, "loss", of_task.loss(output, labels).item())
            log(task, TASKS[task].metric, scores[task])
        self.history.log_overall(step, epoch, split, scores)
        return scores

    def predictions(self) -> pa.Table:
        """Return the rows of `predictions.parquet`, once the best epoch's weights are restored.

        `last` is dev's prediction after the last epoch, null for other splits and tasks that are
        not trained. `split` is `selection` for dev examples that chose the epoch, if a half did.
        Dev outputs of the best epoch are kept and not computed again.
        """
        self.model.module.eval()
        return pa.concat_tables(
            self._predictions(task, split)
            for split in ("dev", "test")
            for task in self.spec.ordered_tasks
            if len(self.model.examples[task][split])
        )

    def _predictions(self, task: str, split: str) -> pa.Table:
        examples, of_task = self.model.examples[task][split], self.model.losses[task]
        is_dev = split == "dev"
        output = self.best.get(task) if is_dev else None
        if output is None:
            output = self.model.outputs(task, split)
        splits = np.full(len(examples), split, dtype=object)
        last = torch.full((len(examples),), torch.nan)
        if is_dev:
            splits[~report_mask(examples.ids, self.spec.selection_split)] = "selection"
            if task in self.last:
                last = of_task.prediction(self.last[task])

        def numbers(values: Tensor) -> np.ndarray:
            return values.cpu().numpy().astype(np.float64)

        columns = {
            "id": examples.ids,
            "task": [task] * len(examples),
            "split": splits,
            "prediction": numbers(of_task.prediction(output)),
            "scores": list(of_task.scores(output).cpu().numpy()),
            "label": pa.array(numbers(examples.labels), from_pandas=True),  # NaN is null.
            "last": pa.array(numbers(last), from_pandas=True),
        }
        return pa.table(columns, schema=PREDICTIONS)
