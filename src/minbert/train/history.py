"""The history of a run: every measured value with its step, epoch and time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from minbert.common.errors import UserError
from minbert.common.files import whole

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

Listener = Callable[[int, int, str, str, str, float, float], None]


class History:
    """Rows of (step, epoch, split, task, metric, value, unix time), told to `listener` too.

    A metric with a slash is a detail for figures, of which there are many; it is not told.
    """

    def __init__(self, listener: Listener | None = None) -> None:
        self.rows: list[tuple[int, int, str, str, str, float, float]] = []
        self.listener = listener

    def log(self, step: int, epoch: int, split: str, task: str, metric: str, value: float) -> None:
        """Add one value, measured now, after step `step` (from 1) of `epoch` (from 1)."""
        row = (step, epoch, split, task, metric, float(value), round(time.time(), 3))
        self.replay([row])

    def replay(self, rows: Sequence[tuple[int, int, str, str, str, float, float]]) -> None:
        """Take in rows, those of an interrupted run too, and tell them to the listener."""
        for row in rows:
            self.rows.append(row)
            if self.listener and "/" not in row[4]:
                self.listener(*row)

    def write(self, path: Path) -> None:
        """Write `history.parquet`."""
        rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in self.rows]
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        with whole(path) as temporary:
            pq.write_table(table, temporary, write_page_checksum=True)


class LossMeter:
    """Training losses, gathered on the device and read in groups so that no step waits for them.

    Each window of `window` steps becomes one row a task and one for the multitask loss (the
    weighted sum over a step's batches), its mean. A loss that is not finite raises `UserError`
    with the step, the task and the ids of its batch.
    """

    def __init__(
        self,
        history: History,
        ids: Callable[[str, Tensor], list[str]],
        window: int,
        read_every: int,
    ) -> None:
        self.history = history
        self.ids = ids
        self.window = window
        self.read_every = read_every
        self.waiting: list[tuple[int, str, Tensor, float, Tensor]] = []
        self.sums: dict[str, list[float]] = {}
        self.latest = math.nan

    def add(self, step: int, task: str, rows: Tensor, weight: float, loss: Tensor) -> None:
        """Note the detached scalar `loss` of one batch of `task` at `step`."""
        self.waiting.append((step, task, rows, weight, loss.detach()))

    def after_step(self, step: int, epoch: int, last: bool = False) -> None:
        """Read what waits every `read_every` steps; log at the end of each window or epoch."""
        if step % self.read_every == 0 or step % self.window == 0 or last:
            self.flush()
        if step % self.window == 0 or last:
            for task, values in self.sums.items():
                self.history.log(step, epoch, "train", task, "loss", sum(values) / len(values))
            self.sums = {}

    def flush(self) -> None:
        """Read the losses that wait on the device."""
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
