"""What a training job says of itself to MLflow before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyarrow.parquet import read_metadata

from minbert.data.identity import sha256
from minbert.grid.job import Job
from minbert.grid.spec import StageSpec


def about_run(job: Job, spec: StageSpec, name: str) -> dict[str, Any]:
    """Return what `Journal.start` is told of a training job called `name`."""
    owner = job.described["owner"]
    flat = _flatten(spec.model_dump(mode="json"))
    return {
        "experiment": owner["paper"],
        "key": job.described["key"],
        "seed": job.seed,
        "name": name,
        "params": {
            "variant": owner["variant"],
            "stage": owner["stage"],
            "tasks": "+".join(spec.trained_tasks),
            "seed": str(job.seed),
            **flat,
        },
        "tags": {"minbert.select": spec.select, "minbert.key": job.described["key"]},
        "datasets": [_dataset(task, path) for task, path in job.needs("tokens").items()],
    }


def _dataset(task: str, tokens: Path) -> dict[str, Any]:
    rows = read_metadata(tokens).num_rows
    return {"name": task, "digest": sha256(tokens), "source": str(tokens), "rows": rows}


def _flatten(value: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        return {prefix: str(value)}
    found: dict[str, str] = {}
    for name, inner in value.items():
        found |= _flatten(inner, f"{prefix}.{name}" if prefix else name)
    return found
