"""What a run measures: its history, training losses, and scores on train."""

import math
import time
from collections.abc import Callable, Iterable
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
class History:
    """All measured values of a run, in order; those without a slash are passed on to `listener`."""

    listener: Listener | None = None
    rows: list[Measured] = field(default_factory=list)

    def log(self, step: int, epoch: int, split: str, task: str, metric: str, value: float) -> None:
        """Add one value, measured now, after step `step` (from 1) of `epoch` (from 1)."""
        now = round(time.time(), 3)
        self.replay([Measured(step, epoch, split, task, metric, float(value), now)])

    def replay(self, rows: Iterable[Measured]) -> None:
        """Add rows, those of an interrupted run too, and pass them on to the listener."""
        for row in rows:
            self.rows.append(row)
            if self.listener and "/" not in row.metric:
                self.listener(row)

    def log_overall(self, step: int, epoch: int, split: str, scores: dict[str, float]) -> None:
        """Add the overall scores of both rules, if `scores` has all of their tasks, several."""
        tasks = overall_tasks(scores)
        for rule in RULES if len(tasks) > 1 else ():
            if (value := overall(scores, rule, tasks)) is not None:
                self.log(step, epoch, split, "overall", rule, value)

    def state(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def load(self, state: dict[str, Any]) -> None:
        """Take over rows; the listener gets them again."""
        self.replay(Measured(*row) for row in state["rows"])

    def write(self, path: Path) -> None:
        table = pa.Table.from_pylist([row._asdict() for row in self.rows], schema=SCHEMA)
        with whole(path) as temporary:
            pq.write_table(table, temporary, write_page_checksum=True)


@dataclass
class LossMeter:
    """Training losses, collected on the device and read in groups so that steps need not wait.

    Each `window` steps become one row per task, the mean loss, and one for the multitask loss (the
    weighted sum over a step's batches). Raises `UserError` if a loss is not finite.
    """

    history: History
    ids: Callable[[str, Tensor], list[str]]
    window: int
    read_every: int
    waiting: list[tuple[int, str, Tensor, float, Tensor]] = field(default_factory=list)
    sums: dict[str, list[float]] = field(default_factory=dict)
    latest: float = math.nan

    def add(self, step: int, task: str, rows: Tensor, weight: float, loss: Tensor) -> None:
        self.waiting.append((step, task, rows, weight, loss.detach()))

    def after_step(self, step: int, epoch: int, last: bool = False) -> None:
        """Read losses every `read_every` steps; log at the end of each window and epoch."""
        if step % self.read_every == 0 or step % self.window == 0 or last:
            self.flush()
        if step % self.window == 0 or last:
            for task, values in self.sums.items():
                self.history.log(step, epoch, "train", task, "loss", sum(values) / len(values))
            self.sums = {}

    def flush(self) -> None:
        if not self.waiting:
            return
        values = torch.stack([loss for *_, loss in self.waiting]).tolist()
        totals: dict[int, float] = {}
        for (step, task, rows, weight, _), value in zip(self.waiting, values, strict=True):
            if not math.isfinite(value):
                raise UserError(
                    f"the loss of task '{task}' is {value} at step {step}; batch ids: "
                    f"{', '.join(self.ids(task, rows))}. Lower optimiser.lr, lengthen "
                    "optimiser.schedule.warmup, or look at these examples."
                )
            self.sums.setdefault(task, []).append(value)
            totals[step] = totals.get(step, 0.0) + weight * value
        self.sums.setdefault("overall", []).extend(totals.values())
        self.latest = next(reversed(totals.values()))
        self.waiting = []

    def state(self) -> dict[str, Any]:
        self.flush()
        return {"sums": self.sums, "latest": self.latest}

    def load(self, state: dict[str, Any]) -> None:
        self.sums, self.latest = state["sums"], state["latest"]


@dataclass
class TrainScores:
    """Scores on train, from the predictions that each epoch's batches got while they trained.

    So dropout is on, weights change over the epoch, and an example drawn twice counts twice.
    Predictions stay on the device until the epoch's end, so that no step waits for them.
    """

    history: History
    labels: Callable[[str], Tensor]
    rows: dict[str, list[Tensor]] = field(default_factory=dict)
    predictions: dict[str, list[Tensor]] = field(default_factory=dict)

    def add(self, task: str, rows: Tensor, prediction: Tensor) -> None:
        self.rows.setdefault(task, []).append(rows)
        self.predictions.setdefault(task, []).append(prediction)

    def end_epoch(self, step: int, epoch: int) -> None:
        scores = {}
        # In a fixed order, which does not depend on the first batches.
        for task in (task for task in TASKS if task in self.rows):
            label = self.labels(task).cpu()[torch.cat(self.rows[task])]
            prediction = torch.cat(self.predictions[task]).cpu()
            scores[task] = score_task(task, prediction.numpy(), label.numpy())
            self.history.log(step, epoch, "train", task, TASKS[task].metric, scores[task])
        self.history.log_overall(step, epoch, "train", scores)
        self.rows, self.predictions = {}, {}

    def state(self) -> dict[str, Any]:
        rows = {f"rows.{task}": torch.cat(of) for task, of in self.rows.items()}
        return rows | {
            f"predictions.{task}": torch.cat(of) for task, of in self.predictions.items()
        }

    def load(self, state: dict[str, Any]) -> None:
        for name, tensor in state.items():
            kind, task = name.split(".")
            (self.rows if kind == "rows" else self.predictions)[task] = [tensor]
