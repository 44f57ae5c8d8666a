"""What differs between the results of two runs of one code; nothing is expected to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image
from safetensors.numpy import load_file

PUBLISHED = ("tables", "figures", "report.html", "variants.tsv")
WAYS = ("device", "precision", "threads")
"""What a training's record says of how it was computed, in its environment."""

IGNORED = {".pdf"}
"""Figures are compared by the pixels of their PNG."""


def differences(top: Path, fresh: Path, made: Iterable[str]) -> Iterator[str]:
    """Yield the published files that differ, then those of the nodes in folders `made`.

    `top` and `fresh` are results roots.
    """
    names: dict[str, None] = {}
    for root in (top, fresh):
        for name in PUBLISHED:
            names |= dict.fromkeys(_files(root, name))
    for folder in made:
        for root in (top, fresh):
            names |= dict.fromkeys(_files(root, folder))
    for name in names:
        if Path(name).suffix not in IGNORED and not equal(top / name, fresh / name):
            yield name


def _files(root: Path, name: str) -> Iterator[str]:
    path = root / name
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return (str(p.relative_to(root)) for p in files if p.is_file() and not p.name.startswith("."))


def equal(one: Path, other: Path) -> bool:
    """Whether two files of the same name hold the same; speed, size and times do not count."""
    if not (one.exists() and other.exists()):
        return False
    if one.read_bytes() == other.read_bytes():
        return True
    match one.suffix:
        case ".parquet":
            return _table(one) == _table(other)
        case ".png":
            with Image.open(one) as left, Image.open(other) as right:
                return np.array_equal(np.asarray(left), np.asarray(right))
        case ".json":
            return _json(one) == _json(other)
        case ".safetensors":
            left, right = load_file(one), load_file(other)
            return left.keys() == right.keys() and all(
                left[name].tobytes() == right[name].tobytes() for name in left
            )
    return False


def _table(path: Path) -> str:
    """Return a table's rows as text, in which NaN equals itself, but for times."""
    table = pq.read_table(path)
    return str(table.drop_columns([n for n in ("time",) if n in table.column_names]).to_pylist())


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def computed_otherwise(top: Path, fresh: Path, folder: str) -> bool:
    """Whether the records of a training tell of two ways to compute it."""
    return _way(top / folder / "run.json") != _way(fresh / folder / "run.json")


def _way(path: Path) -> list[Any]:
    record = _json(path)
    return [*(record["environment"].get(name) for name in WAYS), record.get("parts_of_a_batch")]
