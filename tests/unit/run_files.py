"""Histories and predictions of runs, written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.train.evaluation import PREDICTIONS
from minbert.train.history import SCHEMA


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
