"""What a run measures: its history, and losses and scores of its training batches."""

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.evaluate.scoring import overall, score_task
from minbert.spec.protocol import RULES, Measured
from minbert.spec.task import TASKS, overall_tasks
from minbert.train.checkpoints import Part
from minbert.train.examples import Examples
from minbert.train.step import TaskResult

SCHEMA = pa.schema(
    {
        "step": pa.int64(),
        "epoch": pa.int32(),
        "split": pa.string(),
        "task": pa.string(),
        "metric": pa.string(),
        "value": pa.float64(),
        "time": pa.float64(),
    }
)

Listener = Callable[[Measured], None]


class History(Part):
    """All measured values of a run, in order; those without a slash are passed on to `listener`.

    Each is logged for the step and the epoch that the run has come to: `done` steps of `epoch`
    (from 1), `step` in all.
    """

    kept = ("rows", "step", "epoch", "done", "best_epoch", "best_score")

    def __init__(self, listener: Listener | None = None) -> None:
        self.listener = listener
        self.rows: list[tuple[Any, ...]] = []  # of `Measured`
        self.epoch, self.done, self.step = 1, 0, 0
        self.best_epoch, self.best_score = 0, -math.inf
        self.started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The seconds of the whole run so far, its interrupted parts included."""
        return time.perf_counter() - self.started

    def log(self, split: str, task: str, metric: str, value: float) -> None:
        """Add one value, measured now."""
        now = round(time.time(), 3)
        row = Measured(self.step, self.epoch, split, task, metric, float(value), now)
        self.rows.append(tuple(row))
        self._tell(row)

    def log_score(self, split: str, task: str, prediction: Tensor, label: Tensor) -> float:
        """Add the score of predictions [N] on the CPU, by the task's metric, and return it."""
        score = score_task(task, prediction.numpy(), label.numpy())
        self.log(split, task, TASKS[task].metric, score)
        return score

    def log_overall(self, split: str, scores: dict[str, float]) -> None:
        """Add the overall scores of both rules, if `scores` has all of their tasks, several."""
        tasks = overall_tasks(scores)
        for rule in RULES if len(tasks) > 1 else ():
            if (value := overall(scores, rule, tasks)) is not None:
                self.log(split, "overall", rule, value)

    def _tell(self, row: Measured) -> None:
        if self.listener and "/" not in row.metric:
            self.listener(row)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"seconds": self.seconds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what an interrupted run has measured; the listener gets it again."""
        self.started = time.perf_counter() - state.pop("seconds")
        super().load_state_dict(state)
        for row in self.rows:
            self._tell(Measured(*row))

    def write(self, path: Path) -> None:
        table = pa.Table.from_pylist([Measured(*row)._asdict() for row in self.rows], schema=SCHEMA)
        with whole(path) as temporary:
            pq.write_table(table, temporary, write_page_checksum=True)


class TrainingMeter(Part):
    """Losses and scores of the training batches, by task, for the history.

    Results stay on the device until a window of steps ends, so that steps need not wait. Each
    window becomes one row per task, the mean loss, and one for the multitask loss (the weighted sum
    over a step's batches). A loss that is not finite raises `UserError`.

    An epoch's scores are of the predictions that its batches got while they trained: dropout is on,
    weights change over the epoch, and an example drawn twice counts twice.
    """

    kept = ("unread", "seen")

    def __init__(self, history: History, examples: Mapping[str, Examples]) -> None:
        self.history = history
        self.examples = examples
        self.newest: list[TaskResult] = []  # of the last step
        # The step and a `TaskResult` of each batch of the window.
        self.unread: list[tuple[Any, ...]] = []
        # The rows and predictions of the epoch's batches before the window, by task.
        self.seen: dict[str, tuple[list[int], list[float]]] = {}

    def latest(self) -> float:
        """Return the multitask loss of the last step, for which the device is waited for."""
        return sum(each.weight * each.loss.item() for each in self.newest)

    def add(self, results: list[TaskResult]) -> None:
        """Take in what a step found, without waiting for the device."""
        self.newest = results
        self.unread += [(self.history.step, *result) for result in results]

    def end_window(self) -> None:
        """Log the mean losses of the window's steps."""
        losses: dict[str, list[float]] = {}
        totals: dict[int, float] = {}
        for step, task, rows, weight, loss, prediction in self.unread:
            value = loss.item()
            if not math.isfinite(value):
                ids = ", ".join(self.examples[task].ids[row] for row in rows.tolist())
                raise UserError(
                    f"the loss of task '{task}' is {value} at step {step}; batch ids: {ids}. Lower "
                    "optimiser.lr, lengthen optimiser.schedule.warmup, or look at these examples."
                )
            losses.setdefault(task, []).append(value)
            totals[step] = totals.get(step, 0.0) + weight * value
            seen = self.seen.setdefault(task, ([], []))
            seen[0].extend(rows.tolist())
            seen[1].extend(prediction.tolist())
        losses["overall"] = list(totals.values())
        for task, values in losses.items():
            self.history.log("train", task, "loss", sum(values) / len(values))
        self.unread = []

    def end_epoch(self) -> None:
        """Score the predictions of an epoch whose last window has ended; begin the next one."""
        scores = {}
        # In a fixed order, which does not depend on the first batches.
        for task in (task for task in TASKS if task in self.seen):
            rows, prediction = self.seen[task]
            label = self.examples[task].labels.cpu()[rows]
            scores[task] = self.history.log_score("train", task, torch.tensor(prediction), label)
        self.history.log_overall("train", scores)
        self.seen = {}
