"""What a training job tells of itself as it starts: whose it is, its settings, its data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minbert.common.environment import commit
from minbert.common.parquet import read_file
from minbert.data.identity import sha256
from minbert.grid.job import Job
from minbert.grid.spec import StageSpec


def describe_run(job: Job, spec: StageSpec, name: str) -> dict[str, Any]:
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
        "tags": {
            "minbert.select": spec.select,
            "minbert.key": job.described["key"],
            "minbert.stage": owner["stage"],
            "commit": commit(),
        },
        "datasets": [
            data
            for task, path in job.needs("tokens").items()
            for data in _datasets(task, path, spec.tasks[task].trained)
        ],
    }


def _datasets(task: str, tokens: Path, trained: bool) -> Iterator[dict[str, Any]]:
    """Yield each split of a token table that the run uses; the digest is the whole table's."""
    splits = Counter(read_file(tokens, ["split"])["split"].to_pylist())
    digest = sha256(tokens)
    for split, rows in splits.items():
        if trained or split != "train":
            said = {"name": task, "split": split, "rows": rows}
            yield said | {"digest": digest, "source": str(tokens.absolute())}


def _flatten(value: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        return {prefix: str(value)}
    found: dict[str, str] = {}
    for name, inner in value.items():
        found |= _flatten(inner, f"{prefix}.{name}" if prefix else name)
    return found
