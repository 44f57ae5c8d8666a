"""What differs between the results of two runs of one code; nothing is expected to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

PUBLISHED = ("tables", "figures", "report.html", "variants.tsv")
WAYS = ("device", "precision", "threads")
"""What a training's record says of how it was computed, in its environment."""


def differences(
    top: Path, fresh: Path, names: Iterable[str], left_out: str = ".pdf"
) -> Iterator[str]:
    """Yield the files that differ at or below `names`, without those of an ending.

    `top` and `fresh` are results roots. Figures are compared by the pixels of their PNG.
    """
    files: dict[str, None] = {}
    for name in names:
        for root in (top, fresh):
            found = sorted((root / name).rglob("*")) or [root / name]
            kept = (p for p in found if p.is_file() and p.suffix != left_out and p.name[0] != ".")
            files |= dict.fromkeys(str(path.relative_to(root)) for path in kept)
    yield from (name for name in files if not equal(top / name, fresh / name))


def equal(one: Path, other: Path) -> bool:
    """Whether two files of the same name hold the same; speed, size and times do not count."""
    if not (one.exists() and other.exists()):
        return False
    if one.read_bytes() == other.read_bytes():
        return True
    if one.suffix == ".png":
        with Image.open(one) as left, Image.open(other) as right:
            return np.array_equal(np.asarray(left), np.asarray(right))
    if one.suffix == ".json":
        return _json(one) == _json(other)
    return one.suffix == ".parquet" and _rows(one) == _rows(other)


def _rows(path: Path) -> str:
    """Return a table's rows as text, in which NaN equals itself, but for times."""
    frame = pq.read_table(path).to_pandas().drop(columns="time", errors="ignore")
    return str(frame.to_dict("records"))


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def is_told(top: Path, fresh: Path, found: Iterable[str]) -> bool:
    """Whether the record of each training that differs tells of another way to compute it."""
    trainings = {Path(name).parent for name in found if name.startswith("store/train/")}
    return bool(trainings) and all(_way(top / at) != _way(fresh / at) for at in trainings)


def _way(folder: Path) -> list[Any]:
    record = _json(folder / "run.json")
    return [*map(record["environment"].get, WAYS), record.get("parts_of_a_batch")]
