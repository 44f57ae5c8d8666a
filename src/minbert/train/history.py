"""What a run measures: losses, scores and where it has come to; predictions, best and last."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.data.parquet import write_file
from minbert.evaluate.scoring import overall, score_task
from minbert.spec.protocol import RULES, Measured
from minbert.spec.stage import SelectionSplit
from minbert.spec.task import TASKS, overall_tasks
from minbert.train.checkpoints import Part
from minbert.train.step import TaskResult
from minbert.train.trainable import TrainableModel

TEXT, NUMBER = pa.string(), pa.float64()
SCHEMA = pa.schema(
    {
        "step": pa.int64(),
        "epoch": pa.int32(),
        **dict.fromkeys(("split", "task", "metric"), TEXT),
        **dict.fromkeys(("value", "time"), NUMBER),
    }
)
PREDICTIONS = pa.schema(
    {
        **dict.fromkeys(("id", "task", "split"), TEXT),
        "prediction": NUMBER,
        "scores": pa.list_(pa.float32()),
        **dict.fromkeys(("label", "last"), NUMBER),
    }
)
Listener = Callable[[Measured], None]


class History(Part):
    """All measured values of a run, in order; those without a slash are passed on to `listener`.

    Each is logged for the `step` and the `epoch`, both from 1, that the run has come to.

    Training batches' results stay on the device until a window of steps ends, so that steps need
    not wait. Each window becomes one row per task, the mean loss, and one for the multitask `loss`
    (the weighted sum over a step's batches). A loss that is not finite raises `UserError`.

    An epoch's training scores are of the predictions that its batches got while they trained:
    dropout is on, weights change over the epoch, and an example drawn twice counts twice.
    """

    kept = (
        *("rows", "step", "epoch", "best_epoch", "best_score", "best_outputs"),
        *("loss", "unread", "seen", "seconds"),
    )

    def __init__(self, model: TrainableModel, listener: Listener | None = None) -> None:
        self.model, self.listener = model, listener
        self.rows: list[tuple[Any, ...]] = []  # of `Measured`
        self.epoch, self.step = 1, 0
        self.best_epoch, self.best_score = 0, -math.inf
        # Outputs of dev by task, of the best epoch and of the last one.
        self.best_outputs: dict[str, Tensor] = {}
        self.last_outputs: dict[str, Tensor] = {}
        self.seconds = 0.0
        self.loss = math.nan  # of the last window
        # The step and a `TaskResult` of each batch of the window.
        self.unread: list[tuple[Any, ...]] = []
        # The rows and predictions of the epoch's batches before the window, by task.
        self.seen: dict[str, tuple[list[int], list[float]]] = {}

    @property
    def seconds(self) -> float:
        """The seconds of the whole run so far, its interrupted parts included."""
        return time.perf_counter() - self.started

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self.started = time.perf_counter() - seconds

    def log(self, split: str, task: str, metric: str, value: float) -> None:
        """Add one value, measured now."""
        now = round(time.time(), 3)
        self.rows.append((self.step, self.epoch, split, task, metric, float(value), now))
        self.tell(self.rows[-1:])

    def tell(self, rows: list[tuple[Any, ...]]) -> None:
        """Let the listener hear `rows`; when an interrupted run resumes, all that there are."""
        for measured in (Measured(*row) for row in rows):
            if self.listener and "/" not in measured.metric:
                self.listener(measured)

    def log_scores(self, split: str, found: Mapping[str, tuple[Tensor, ...]]) -> dict[str, float]:
        """Add and return each task's score of its predictions [N], labels [N] and, on dev, loss.

        The overall scores of both rules follow, if there are all of their tasks, several.
        """
        scores = {}
        for task, (prediction, label, *losses) in found.items():
            for loss in losses:
                self.log(split, task, "loss", loss.item())
            scores[task] = score_task(task, prediction.cpu().numpy(), label.cpu().numpy())
            self.log(split, task, TASKS[task].metric, scores[task])
        tasks = overall_tasks(scores)
        for rule in RULES if len(tasks) > 1 else ():
            if (value := overall(scores, rule, tasks)) is not None:
                self.log(split, "overall", rule, value)
        return scores

    def add(self, results: list[TaskResult]) -> None:
        """Take in what a step found, without waiting for the device."""
        self.unread += [(self.step, *result) for result in results]

    def end_window(self) -> None:
        """Log the mean losses of the window's steps."""
        losses: dict[str, list[float]] = {}
        totals: dict[int, float] = {}
        for step, task, rows, weight, loss, prediction in self.unread:
            value = loss.item()
            if not math.isfinite(value):
                examples = self.model.examples[task]["train"]
                ids = ", ".join(examples.ids[row] for row in rows.tolist())
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
            self.loss = sum(values) / len(values)
            self.log("train", task, "loss", self.loss)
        self.unread = []

    def end_epoch(self, outputs: dict[str, Tensor]) -> dict[str, dict[str, float]]:
        """Score an epoch whose last window has ended, with its `outputs` of dev by task.

        Return the scores of dev, {split: {task: score}}; the last split chooses.
        """
        train = {}
        # In a fixed order, which does not depend on the first batches.
        for task in (task for task in TASKS if task in self.seen):
            rows, prediction = self.seen[task]
            labels = self.model.examples[task]["train"].labels[rows]
            train[task] = torch.tensor(prediction), labels
        self.log_scores("train", train)
        self.seen, self.last_outputs = {}, outputs
        scores, how = {}, self.model.module.spec.selection_split
        for split in ("dev", "selection") if how == "half" else ("dev",):
            found = {}
            for task, whole in outputs.items():
                of_task, examples = self.model.losses[task], self.model.examples[task]["dev"]
                chosen = torch.from_numpy(dev_splits(examples.ids, how) == split)
                output, labels = whole[chosen], examples.labels[chosen]
                found[task] = of_task.prediction(output), labels, of_task.loss(output, labels)
            scores[split] = self.log_scores(split, found)
        return scores

    def write(self, path: Path) -> None:
        write_file(path, pa.table(list(map(list, zip(*self.rows, strict=True))), schema=SCHEMA))


def dev_splits(ids: Sequence[str], selection_split: SelectionSplit) -> np.ndarray:
    """Return where each dev example counts [N]: `selection` if it only chooses, or else `dev`."""
    # As in the papers, which flatters every run.
    if selection_split == "dev":
        return np.full(len(ids), "dev")
    halves = "selection", "dev"
    return np.array([halves[sha256(one.encode()).digest()[0] % 2] for one in ids])


def predictions(history: History) -> pa.Table:
    """Return the rows of `predictions.parquet`, when the model has the best epoch's weights.

    The column `last` is the last epoch's prediction of dev of the trained tasks, null elsewhere.
    `split` is `selection` for dev examples that chose, if a half did.
    """
    model, last = history.model, history.last_outputs
    spec, tables = model.module.spec, []
    for split in ("dev", "test"):
        for task in spec.ordered_tasks:
            examples, of_task = model.examples[task][split], model.losses[task]
            if not len(examples):
                continue
            splits = np.full(len(examples), split)
            before = torch.full_like(examples.labels, torch.nan)
            if split == "dev":
                splits = dev_splits(examples.ids, spec.selection_split)
            if split == "dev" and task in last:
                # Those of a resumed run are on the CPU.
                output = history.best_outputs[task].to(before.device)
                before = of_task.prediction(last[task])
            else:
                output = model.outputs(task, split)
            columns = {
                "id": examples.ids,
                "task": [task] * len(examples),
                "split": splits.tolist(),
                "prediction": _numbers(of_task.prediction(output)),
                "scores": list(of_task.scores(output).cpu().numpy()),
                "label": _numbers(examples.labels),
                "last": _numbers(before),
            }
            tables.append(pa.table(columns, schema=PREDICTIONS))
    return pa.concat_tables(tables)


def _numbers(values: Tensor) -> pa.Array:
    return pa.array(values.cpu().double().numpy(), from_pandas=True)  # NaN is null.
