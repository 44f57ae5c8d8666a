"""Results with chosen values, and what a figure shows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text

from minbert.evaluate.reading import SCHEMA
from minbert.spec.task import TASKS

Scored = tuple[str, int, str, float] | tuple[str, int, str, str, str, float]


def scores(path: Path, rows: Sequence[Scored], floors: Mapping[str, float] | None = None) -> Path:
    """Write scores of (variant, seed, task, value), of dev by each task's own metric, or of
    (variant, seed, split, task, metric, value).

    Tasks' scores up to the floor, by variant or else 0.2, are not above it; errors are .05.
    """
    names = ("variant", "seed", "split", "task", "metric", "value")
    lines = []
    for row in rows:
        whole = row if len(row) == 6 else (*row[:2], "dev", row[2], TASKS[row[2]].metric, row[3])
        line = dict(zip(names, whole, strict=True)) | {"paper": "p", "key": row[0]}
        if whole[3] in TASKS:
            floor = (floors or {}).get(row[0], 0.2)
            p = 0.5 if whole[5] <= floor else 0.01
            line |= {"floor": floor, "p_floor": p, "error": 0.05}
        lines.append(line)
    pq.write_table(pa.Table.from_pylist(lines, schema=SCHEMA), path)
    return path


def last(**of: Mapping[int, Path]) -> dict[str, dict[str, Mapping[int, Path]]]:
    """Return the histories of variants of one stage."""
    return {name: {"main": of_seeds} for name, of_seeds in of.items()}


def texts(where: Figure | Axes) -> list[str]:
    return [text.get_text() for text in where.findobj(Text) if text.get_text()]


def lines(axes: Axes, color: str) -> list[list[float]]:
    """Return the values of an axes' lines of one colour."""
    return [
        [float(y) for y in line.get_ydata()] for line in axes.lines if line.get_color() == color
    ]


def points(figure: Figure) -> list[tuple[float, float]]:
    """Return the means that error bars are drawn around, panel by panel."""
    return [
        (float(x), float(y))
        for axes in figure.axes
        for container in axes.containers
        if isinstance(container, ErrorbarContainer)
        for x, y in zip(*container.lines[0].get_data(), strict=True)
    ]
