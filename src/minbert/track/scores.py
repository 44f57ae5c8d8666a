"""A run's scores as MLflow shows them: at the best epoch, their floors, what was learnt."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minbert.data.parquet import read_file
from minbert.evaluate.floors import against_floor
from minbert.evaluate.reading import Of, Score, Scores, mostly_learned
from minbert.evaluate.scoring import overall
from minbert.evaluate.winner import Winner
from minbert.spec.protocol import OVERALL_TASKS, Measured
from minbert.spec.task import TASKS
from minbert.track.journal import BEST, FLOOR, TEST


class Shown(NamedTuple):
    """The rows that MLflow shows (`BEST`, `FLOOR`, `TEST`), and tags on what was learnt."""

    rows: list[Measured]
    tags: dict[str, str]


NOTHING = Shown([], {})


def of_predictions(
    path: Path,
    rule: str,
    step: int,
    epoch: int,
    overall_tasks: Sequence[str] = OVERALL_TASKS,
) -> Shown:
    """Return what a run's predictions at `path` came to on dev, and on test where it has labels.

    `rule` is the overall score's, `overall_tasks` are its tasks. `step` and `epoch` are those of
    the weights that predicted.
    """
    table = read_file(path, ("task", "split", "prediction", "label"))
    of = {
        split: _of_split(table.filter(pc.equal(table["split"], split)), rule, overall_tasks)
        for split in ("dev", "test")
    }
    dev = _shown(of["dev"], step, epoch)
    test = _shown(of["test"], step, epoch).rows
    return Shown(
        [*dev.rows, *(row._replace(split=TEST) for row in test if row.split == BEST)], dev.tags
    )


def _of_split(table: pa.Table, rule: str, overall_tasks: Sequence[str]) -> dict[str, list[Score]]:
    """Return the scores of a split's predictions by task, and the overall one by its `rule`."""
    found: dict[str, Score] = {}
    for task in TASKS:
        part = table.filter(pc.equal(table["task"], task))
        label = _floats(part["label"])
        if len(label) and np.isfinite(label).all():
            test = against_floor(task, _floats(part["prediction"]), label)
            found[task] = Score(
                test.score,
                key="",
                last=None,
                floor=test.floor,
                p_floor=test.p,
                constant=test.constant,
            )
    whole = overall({task: score.value for task, score in found.items()}, rule, overall_tasks)
    if whole is not None:
        floors = {task: score.floor for task, score in found.items() if score.floor is not None}
        found[rule] = Score(whole, key="", last=None, floor=overall(floors, rule, overall_tasks))
    return {measure: [score] for measure, score in found.items()}


def of_winner(scores: Scores, best: Winner) -> Shown:
    """Return what a paper's best variant came to on dev: means over seeds, as in its table."""
    measures = [Of(best.variant, "dev", measure) for measure in (*TASKS, best.rule)]
    found = {of.measure: list(scores[of].values()) for of in measures if of in scores}
    return _shown(found, 0, 0)


def _shown(found: Mapping[str, Sequence[Score]], step: int, epoch: int) -> Shown:
    """Return the means of each measure's scores; a task counts as learnt if it is in most."""
    now = round(time.time(), 3)
    rows: list[Measured] = []
    tags: dict[str, list[str]] = {}
    for measure, scores in found.items():
        task, metric = ("overall", measure)
        if measure in TASKS:
            task, metric = measure, TASKS[measure].metric
        values = {BEST: [s.value for s in scores]}
        values[FLOOR] = [s.floor for s in scores if s.floor is not None]
        for split, of_runs in values.items():
            if of_runs:
                rows.append(Measured(step, epoch, split, task, metric, fmean(of_runs), now))
        if (learned := mostly_learned(scores)) is not None:
            tags.setdefault("learned" if learned else "not_learned", []).append(task)
        if any(score.constant for score in scores):
            tags.setdefault("constant", []).append(task)
    return Shown(rows, {name: ",".join(tasks) for name, tasks in tags.items()})


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column as float64 [n], null as nan."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=float)
