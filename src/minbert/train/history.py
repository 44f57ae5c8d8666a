"""What a run measures: its history, and losses and scores of its training batches."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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
from minbert.train.examples import Labelled
from minbert.train.step import TaskResult

SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("epoch", pa.int32()),
        ("split", pa.string()),
        ("task", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("time", pa.float64()),
    ]
)

Listener = Callable[[Measured], None]


@dataclass
class History(Part):
    """All measured values of a run, in order; those without a slash are passed on to `listener`."""

    listener: Listener | None = None
    rows: list[Measured] = field(default_factory=list)

    def log(self, step: int, epoch: int, split: str, task: str, metric: str, value: float) -> None:
        """Add one value, measured now, after step `step` (from 1) of `epoch` (from 1)."""
        now = round(time.time(), 3)
        self._add(Measured(step, epoch, split, task, metric, float(value), now))

    def log_overall(self, step: int, epoch: int, split: str, scores: dict[str, float]) -> None:
        """Add the overall scores of both rules, if `scores` has all of their tasks, several."""
        tasks = overall_tasks(scores)
        for rule in RULES if len(tasks) > 1 else ():
            if (value := overall(scores, rule, tasks)) is not None:
                self.log(step, epoch, split, "overall", rule, value)

    def _add(self, row: Measured) -> None:
        self.rows.append(row)
        if self.listener and "/" not in row.metric:
            self.listener(row)

    def state_dict(self) -> dict[str, Any]:
        return {"rows": [tuple(row) for row in self.rows]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over the rows of an interrupted run; the listener gets them again."""
        for row in state["rows"]:
            self._add(Measured(*row))

    def write(self, path: Path) -> None:
        table = pa.Table.from_pylist([row._asdict() for row in self.rows], schema=SCHEMA)
        with whole(path) as temporary:
            pq.write_table(table, temporary, write_page_checksum=True)


class TrainingMeter(Part):
    """Losses and scores of the training batches, by task, for the history.

    Losses stay on the device, and are read every `read_every` steps, so that steps need not wait.
    Each `window` steps become one row per task, the mean loss, and one for the multitask loss (the
    weighted sum over a step's batches). A loss that is not finite raises `UserError`.

    An epoch's scores are of the predictions that its batches got while they trained: dropout is on,
    weights change over the epoch, and an example drawn twice counts twice.
    """

    kept = ("latest", "_losses", "_seen")

    def __init__(
        self, history: History, examples: Mapping[str, Labelled], window: int, read_every: int
    ) -> None:
        self.history = history
        self.examples = examples
        self.window = window
        self.read_every = read_every
        self.latest = math.nan  # the multitask loss of the last step that was read
        self.unread: list[tuple[int, TaskResult]] = []
        self._losses: dict[str, list[float]] = {}
        # The rows and predictions of the epoch's batches so far, by task.
        self._seen: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def add(self, step: int, results: Iterable[TaskResult]) -> None:
        """Take in what step `step` (from 1) found, without waiting for the device."""
        for result in results:
            self.unread.append((step, result))
            self._seen.setdefault(result.task, []).append((result.rows, result.prediction))

    def after_step(self, step: int, epoch: int, last: bool = False) -> None:
        """Read losses if it is time; log at the end of each window and, with `last`, epoch."""
        ends_window = step % self.window == 0 or last
        if ends_window or step % self.read_every == 0:
            self._read()
        if ends_window:
            for task, values in self._losses.items():
                self.history.log(step, epoch, "train", task, "loss", sum(values) / len(values))
            self._losses = {}

    def _read(self) -> None:
        if not self.unread:
            return
        values = torch.stack([result.loss for _, result in self.unread]).tolist()
        totals: dict[int, float] = {}
        for (step, result), value in zip(self.unread, values, strict=True):
            task = result.task
            if not math.isfinite(value):
                ids = ", ".join(self.examples[task].ids[row] for row in result.rows.tolist())
                raise UserError(
                    f"the loss of task '{task}' is {value} at step {step}; batch ids: {ids}. Lower "
                    "optimiser.lr, lengthen optimiser.schedule.warmup, or look at these examples."
                )
            self._losses.setdefault(task, []).append(value)
            totals[step] = totals.get(step, 0.0) + result.weight * value
        self._losses.setdefault("overall", []).extend(totals.values())
        *_, self.latest = totals.values()
        self.unread = []

    def end_epoch(self, step: int, epoch: int) -> None:
        """Score the predictions of `epoch`, whose last step is `step`, and begin the next one."""
        scores = {}
        self._gather()
        # In a fixed order, which does not depend on the first batches.
        for task in (task for task in TASKS if task in self._seen):
            ((rows, prediction),) = self._seen[task]
            label = self.examples[task].labels.cpu()[rows]
            scores[task] = score_task(task, prediction.numpy(), label.numpy())
            self.history.log(step, epoch, "train", task, TASKS[task].metric, scores[task])
        self.history.log_overall(step, epoch, "train", scores)
        self._seen = {}

    def state_dict(self) -> dict[str, Any]:
        self._read()
        self._gather()
        return super().state_dict()

    def _gather(self) -> None:
        """Join what was seen of each task, on the CPU, where a state's first part already is."""
        for task, seen in self._seen.items():
            rows, predictions = zip(*seen, strict=True)
            self._seen[task] = [(torch.cat(rows), torch.cat([each.cpu() for each in predictions]))]
