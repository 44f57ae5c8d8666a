"""Histories and predictions of runs, written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.evaluate.score import score_paper
from minbert.spec.protocol import OVERALL_TASKS
from minbert.train.history import PREDICTIONS, SCHEMA


def history(path: Path, *rows: tuple[int, str, str, float], split: str = "dev") -> Path:
    """Write the rows (epoch, task, metric, value) of a history."""
    table = [
        {"step": e, "epoch": e, "split": split, "task": t, "metric": m, "value": v, "time": 0.0}
        for e, t, m, v in rows
    ]
    pq.write_table(pa.Table.from_pylist(table, schema=SCHEMA), path)
    return path


def predictions(path: Path, hits: dict[tuple[str, str], int]) -> Path:
    """Write four predictions a task and split, `hits` of them right, and an empty history."""
    rows: list[dict[str, Any]] = []
    for (task, split), right in hits.items():
        for number in range(4):
            label = float(number % 2)
            wrong = number >= right
            rows.append(
                {
                    "id": f"{split}{number}",
                    "task": task,
                    "split": split,
                    "prediction": 1 - label if wrong else label,
                    "scores": [0.0],
                    "label": label,
                }
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=PREDICTIONS), path)
    history(path.with_suffix(".history"))
    return path


def score(
    path: Path,
    *variants: dict[str, Any],
    seeds: Iterable[int] = (0,),
    at: str = "{}.{}",
    labels: Mapping[str, Mapping[str, float]] = {},
    **more: Any,
) -> list[dict[str, Any]]:
    """Score variants of paper `p` to `path`, beside which their runs lie `at` KEY and SEED.

    A variant's `tasks` are {task: key}; what else the plan says of it may be missing.
    """

    def need(name: str) -> Path:
        key, _, seed = name.removeprefix("run.").rpartition(".")
        return path.parent / at.format(key, seed) / "run.json"

    blank = {"key": "own", "tasks": {}, "tried": [], "tuned_for": None, "best_of": [], "by": ""}
    spec = {"paper": "p", "rule": "plain", "single": None, "overall_tasks": OVERALL_TASKS}
    spec |= {"seeds": seeds, "variants": [blank | {"tested": False} | of for of in variants]}
    table = score_paper(spec | more, need, labels)
    pq.write_table(table, path)
    return table.to_pylist()
