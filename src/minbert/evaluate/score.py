"""The score table of all runs, made from their predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from minbert.common.errors import UserError, nearest
from minbert.common.files import whole
from minbert.evaluate.best import RunScores, TaskScore, best_of
from minbert.evaluate.metrics import task_metrics
from minbert.evaluate.reading import read_columns
from minbert.grid.tasks import TASKS
from minbert.scoring import Rule, overall

SCHEMA = pa.schema(
    [
        ("paper", pa.string()),
        ("variant", pa.string()),
        ("seed", pa.int64()),
        ("split", pa.string()),
        ("task", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("key", pa.string()),
        ("last", pa.float64()),
    ]
)
_COLUMNS = ("id", "task", "split", "prediction", "label")

Metrics = dict[str, float]


class Scored(NamedTuple):
    """What `score_runs` did: runs scored, runs that have no predictions, rows written."""

    scored: int
    missing: int
    rows: int


def score_runs(runs: Sequence[Mapping[str, Any]], out: Path) -> Scored:
    """Score the predictions of `runs` and write the table to `out` (parquet, `SCHEMA`).

    A run is {paper, variant, seed, key, tested, tasks: {task: {predictions: path, history: path,
    key}}}. Dev is
    always scored; test only where the run is `tested` and the split has labels. Each task has a
    row for each of its metrics; a split with SST, para and STS has two more, task `overall`, with
    metrics `normalised` and `plain` under the run's own key. A run that lacks one of its files is
    left out whole, for half a run would show as a run of fewer tasks.

    Predictions are those of the epoch that was best on dev. Column `last` has what dev scored
    after the last epoch, for a task's own metric and the overall scores; null where that was not
    measured, as for tasks that are only carried along.

    A run with {best_of: variants of the paper, by, rule} in place of tasks has the scores of the
    best of them (`best.best_of`), under the keys of what was chosen; their test scores too, where
    this run is `tested`, though they themselves need not be.

    Rows keep the order of `runs`; one file that several runs share is read once. Two runs of the
    same paper, variant and seed, and predictions that are malformed, raise `UserError`.
    """
    found: dict[tuple[str, str], dict[int, RunScores]] = {}
    read: dict[tuple[Path, str], dict[str, Metrics | None]] = {}
    seen: set[tuple[str, str, int]] = set()
    for run in runs:
        name = (run["paper"], run["variant"], run["seed"])
        if name in seen:
            raise UserError(
                f"{name[0]}: variant '{name[1]}', seed {name[2]} is there twice; "
                "a run has one set of scores: drop one or rename its variant"
            )
        seen.add(name)
        if "tasks" in run and (scores := _run_scores(run, read)) is not None:
            found.setdefault(name[:2], {})[name[2]] = scores
    for run in runs:
        if "best_of" in run:
            candidates = {name: found.get((run["paper"], name), {}) for name in run["best_of"]}
            best = best_of(candidates, run["by"], run["rule"])
            found[run["paper"], run["variant"]] = best
    rows: list[dict[str, Any]] = []
    scored = 0
    for run in runs:
        scores = found.get((run["paper"], run["variant"]), {}).get(run["seed"])
        if scores is not None:
            scored += 1
            for split in ("dev", "test") if run["tested"] else ("dev",):
                rows.extend(_rows(run, split, scores))
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    with whole(out) as temporary:
        pq.write_table(table, temporary)
    return Scored(scored, len(runs) - scored, len(rows))


def _run_scores(
    run: Mapping[str, Any], read: dict[tuple[Path, str], dict[str, Metrics | None]]
) -> RunScores | None:
    """Return the scores of a run's files, read once into `read`; None if a file is missing."""
    files = {task: Path(entry["predictions"]) for task, entry in run["tasks"].items()}
    histories = {task: Path(entry["history"]) for task, entry in run["tasks"].items()}
    if not all(path.is_file() for path in (*files.values(), *histories.values())):
        return None
    splits: dict[str, dict[str, TaskScore]] = {"dev": {}, "test": {}}
    for task, path in files.items():
        if (path, task) not in read:
            read[path, task] = _score_file(path, task)
        for split, metrics in read[path, task].items():
            if metrics is not None:
                last = last_dev_score(histories[task], task) if split == "dev" else None
                splits[split][task] = TaskScore(run["tasks"][task]["key"], metrics, last)
    return RunScores(run["key"], splits)


def _rows(run: Mapping[str, Any], split: str, scores: RunScores) -> list[dict[str, Any]]:
    """Return the table's rows of one run and split."""
    values = [
        (task, metric, value, score.key, score.last if metric == TASKS[task].metric else None)
        for task, score in scores.splits[split].items()
        for metric, value in score.metrics.items()
    ]
    lasts = {t: s.last for t, s in scores.splits[split].items() if s.last is not None}
    for rule in get_args(Rule):
        mean = overall(scores.main(split), rule)
        if mean is not None:
            values.append(("overall", rule, mean, scores.key, overall(lasts, rule)))
    about = {name: run[name] for name in ("paper", "variant", "seed")} | {"split": split}
    names = ("task", "metric", "value", "key", "last")
    return [about | dict(zip(names, each, strict=True)) for each in values]


def last_dev_score(history: Path, task: str) -> float | None:
    """Return what `task` scored on dev after the last epoch of a run; None if it never was."""
    wanted = [("split", "=", "dev"), ("task", "=", task), ("metric", "=", TASKS[task].metric)]
    columns = ("epoch", "split", "task", "metric", "value")
    rows = read_columns(history, columns, wanted).to_pylist()
    return max(rows, key=lambda row: row["epoch"])["value"] if rows else None


def _score_file(path: Path, task: str) -> dict[str, Metrics | None]:
    """Return {split: metrics} of `task` in the file at `path`; None for a split without labels."""
    if task not in TASKS:
        raise UserError(f"unknown task '{task}'; known: {', '.join(TASKS)}.{nearest(task, TASKS)}")
    table = read_columns(path, _COLUMNS, [("task", "=", task)])
    if table.num_rows == 0:
        raise UserError(f"{path}: no predictions of task '{task}'; train the run again")
    dev = _score_split(path, task, table, "dev")
    if dev is None:
        raise UserError(f"{path}: task '{task}' has no labelled dev rows; dev is always scored")
    return {"dev": dev, "test": _score_split(path, task, table, "test")}


def _score_split(path: Path, task: str, table: pa.Table, split: str) -> Metrics | None:
    part = table.filter(pc.equal(table["split"], split))
    where = f"{path}: task '{task}', {split}"
    ids = part["id"].to_pylist()
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise UserError(f"{where}: id '{twice}' is predicted more than once; train the run again")
    label = _floats(part["label"], f"{where}, column 'label'")
    absent = int(np.isnan(label).sum())
    if absent == len(label):
        return None
    if absent:
        raise UserError(
            f"{where}: {absent} of {len(label)} rows have no label; a split is labelled or is not"
        )
    prediction = _floats(part["prediction"], f"{where}, column 'prediction'")
    broken = ~np.isfinite(prediction)
    if broken.any():
        raise UserError(
            f"{where}: {int(broken.sum())} of {len(label)} predictions are not finite numbers, the "
            f"first of id '{ids[int(broken.argmax())]}'; train with a lower learning rate"
        )
    return task_metrics(task, prediction, label)


def _floats(column: pa.ChunkedArray, where: str) -> np.ndarray:
    """Return `column` as float64 [n], null as nan."""
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=float)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UserError(f"{where}: expected numbers, found {column.type}") from error
