"""Results with chosen values, and what a figure shows of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from figure_files import HISTORY
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text

from minbert.evaluate.reading import SCHEMA

Row = tuple[int, str, str, str, float]


def history(path: Path, rows: list[Row], length: int = 2) -> Path:
    """Write a history of (step, split, task, metric, value), epochs of `length` steps."""
    names = ("step", "split", "task", "metric", "value")
    lines = [
        {**dict(zip(names, row, strict=True)), "epoch": (row[0] - 1) // length + 1, "time": 0.0}
        for row in rows
    ]
    pq.write_table(pa.Table.from_pylist(lines, schema=pa.schema(HISTORY)), path)
    return path


def scores(
    path: Path, rows: list[tuple[str, int, str, float]], floors: Mapping[str, float] | None = None
) -> Path:
    """Write dev scores of (variant, seed, task, value), by each task's own metric.

    Scores up to the floor, by variant or else 0.2, are not above it; standard errors are .05.
    """
    lines = []
    for variant, seed, task, value in rows:
        floor = (floors or {}).get(variant, 0.2)
        lines.append(
            {"paper": "p", "variant": variant, "seed": seed, "split": "dev", "task": task}
            | {"metric": "pearson" if task == "sts" else "accuracy", "value": value, "floor": floor}
            | {"p_floor": 0.5 if value <= floor else 0.01, "error": 0.05, "key": variant}
        )
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
