"""Scores on train: of each epoch's batches as they were predicted while they trained."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from minbert.grid.tasks import TASKS
from minbert.scoring import overall, score_task
from minbert.train.history import History


class TrainScores:
    """Gathers predictions on the device; nothing waits for them before the epoch's end.

    They cost no pass of their own, so they are with dropout, and of weights that change over the
    epoch. An example that an epoch draws twice counts twice.
    """

    def __init__(self, history: History, labels: Callable[[str], Tensor]) -> None:
        self.history = history
        self.labels = labels
        self.rows: dict[str, list[Tensor]] = {}
        self.predictions: dict[str, list[Tensor]] = {}

    def add(self, task: str, rows: Tensor, prediction: Tensor) -> None:
        """Note the `prediction` [B] of the training `rows` [B] of a task."""
        self.rows.setdefault(task, []).append(rows)
        self.predictions.setdefault(task, []).append(prediction)

    def end_epoch(self, step: int, epoch: int) -> None:
        """Log each task's score, and the overall ones where all of their tasks are trained."""
        scores = {}
        # In an order of their own, which is not that in which a run's first batches came.
        for task in (task for task in TASKS if task in self.rows):
            label = self.labels(task).cpu()[torch.cat(self.rows[task])]
            prediction = torch.cat(self.predictions[task]).cpu()
            scores[task] = score_task(task, prediction.numpy(), label.numpy())
            self.history.log(step, epoch, "train", task, TASKS[task].metric, scores[task])
        for rule in ("normalised", "plain"):
            value = overall(scores, rule)
            if value is not None:
                self.history.log(step, epoch, "train", "overall", rule, value)
        self.rows, self.predictions = {}, {}

    def state(self) -> dict[str, Tensor]:
        """Return what the epoch has so far, for a run that goes on later."""
        parts = {"rows": self.rows, "predictions": self.predictions}
        return {
            f"{kind}.{task}": torch.cat(of)
            for kind, found in parts.items()
            for task, of in found.items()
        }

    def load(self, state: dict[str, Tensor]) -> None:
        """Take in what `state` gave."""
        for name, tensor in state.items():
            kind, task = name.split(".")
            (self.rows if kind == "rows" else self.predictions)[task] = [tensor]
