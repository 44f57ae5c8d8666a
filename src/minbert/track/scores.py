"""A run's scores as MLflow shows them: at the best epoch, their floors, what was learnt."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minbert.data.parquet import read_file
from minbert.evaluate.floors import FloorTest, against_floor
from minbert.evaluate.scoring import overall
from minbert.spec.protocol import OVERALL_TASKS, Measured
from minbert.spec.task import TASKS
from minbert.track.journal import BEST, FLOOR, TEST


def of_predictions(
    path: Path,
    rule: str,
    step: int,
    epoch: int,
    overall_tasks: Sequence[str] = OVERALL_TASKS,
) -> tuple[list[Measured], dict[str, str]]:
    """Return what a run's predictions at `path` came to: `BEST`, `FLOOR` and `TEST`, and tags.

    Test counts where it has labels. The tags list the tasks that were learnt, those that were not,
    and those with constant predictions. `rule` is the overall score's, `overall_tasks` are its
    tasks. `step` and `epoch` are those of the weights that predicted.
    """
    table = read_file(path, ("task", "split", "prediction", "label"))
    dev, test = (_tested(table.filter(pc.equal(table["split"], s))) for s in ("dev", "test"))
    now = round(time.time(), 3)
    rows = []
    for split, values in (
        (BEST, {task: found.score for task, found in dev.items()}),
        (FLOOR, {task: found.floor for task, found in dev.items()}),
        (TEST, {task: found.score for task, found in test.items()}),
    ):
        for task, value in values.items():
            rows.append(Measured(step, epoch, split, task, TASKS[task].metric, value, now))
        if (whole := overall(values, rule, overall_tasks)) is not None:
            rows.append(Measured(step, epoch, split, "overall", rule, whole, now))
    tags = {
        "learned": [task for task, found in dev.items() if found.above],
        "not_learned": [task for task, found in dev.items() if not found.above],
        "constant": [task for task, found in dev.items() if found.constant],
    }
    return rows, {name: ",".join(tasks) for name, tasks in tags.items() if tasks}


def _tested(table: pa.Table) -> dict[str, FloorTest]:
    """Return the scores of a split's predictions by task, with their floors."""
    found = {}
    for task in TASKS:
        part = table.filter(pc.equal(table["task"], task))
        label = _floats(part["label"])
        if len(label) and np.isfinite(label).all():
            found[task] = against_floor(task, _floats(part["prediction"]), label)
    return found


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column as float64 [n], null as nan."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=float)
