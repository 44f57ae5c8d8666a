"""A run's scores as MLflow shows them: at the best epoch, their floors, what was learnt."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minbert.data.parquet import read_file
from minbert.evaluate.floors import FloorTest, against_floor
from minbert.evaluate.scoring import overall
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS
from minbert.track.journal import BEST, FLOOR, TEST


def of_predictions(
    path: Path, rule: str, overall_tasks: Sequence[str] = OVERALL_TASKS
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the metrics `BEST`, `FLOOR` and `TEST` of a run's predictions at `path`, and tags.

    Test counts where it has labels. The tags list the tasks that were learnt, those that were not,
    and those with constant predictions. `rule` is the overall score's, `overall_tasks` are its
    tasks.
    """
    table = read_file(path, ("task", "split", "prediction", "label"))
    dev, test = (_tested(table.filter(pc.equal(table["split"], s))) for s in ("dev", "test"))
    metrics: dict[str, float] = {}
    for kind, values in (
        (BEST, {task: found.score for task, found in dev.items()}),
        (FLOOR, {task: found.floor for task, found in dev.items()}),
        (TEST, {task: found.score for task, found in test.items()}),
    ):
        if (whole := overall(values, rule, overall_tasks)) is not None:
            values["overall"] = whole
        metrics |= {f"{kind}/{task}": value for task, value in values.items()}
    tags = {
        "learned": [task for task, found in dev.items() if found.above],
        "not_learned": [task for task, found in dev.items() if not found.above],
        "constant": [task for task, found in dev.items() if found.constant],
    }
    return metrics, {name: ",".join(tasks) for name, tasks in tags.items() if tasks}


def _tested(table: pa.Table) -> dict[str, FloorTest]:
    """Return the scores of a split's predictions by task, with their floors."""
    found = {}
    for task in TASKS:
        part = table.filter(pc.equal(table["task"], task))
        label = part["label"].to_numpy()  # null as nan
        if len(label) and np.isfinite(label).all():
            found[task] = against_floor(task, part["prediction"].to_numpy(), label)
    return found
