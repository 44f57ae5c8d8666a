"""The table that is printed, `bench.json`, and the figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.run import Row
from minbert.base.environment import commit
from minbert.base.files import write_json
from minbert.figures import style

HEADER = ("case", "size", "ours", "other", "ratio (quartiles)", "of the limit", "measured against")


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table; speeds in examples a second."""
    lines = [HEADER, tuple("---" for _ in HEADER), *(_cells(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    ratio = ""
    if row.ratio is not None:
        ratio = f"**{row.ratio:.2f}** ({row.ratio_low:.2f} to {row.ratio_high:.2f})"
    return (
        row.case,
        row.size,
        f"{row.ours:,.0f}",
        "" if row.other is None else f"{row.other:,.0f}",
        ratio,
        "" if row.fraction_of_limit is None else f"{row.fraction_of_limit:.0%}",
        row.other_name or "",
    )


def about(rows: Sequence[Row], limit: float) -> str:
    """Return one line on where the rows were measured; `limit` is the matrix rate, per second."""
    first = rows[0]
    return (
        f"{first.device}, {first.precision}, {first.threads} threads, torch {torch.__version__}, "
        f"commit {commit()}; large matrix products: {limit / 1e9:,.0f} GFLOP/s. "
        "Speeds in examples/s."
    )


def write(rows: Sequence[Row], limit: float, out: Path) -> None:
    """Write `bench.json` and the figure `bench.{png,pdf}` to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "bench.json", {"about": about(rows, limit), "rows": [asdict(r) for r in rows]})
    draw([row for row in rows if row.ratio is not None], about(rows, limit), out / "bench")


def draw(rows: Sequence[Row], stamp: str, stem: Path) -> None:
    """Draw speed-ups as bars, and beside them how near ours comes to the machine's limit."""
    with style.style():
        figure = style.new_figure(style.WIDE, 1.2 + 0.22 * len(rows))
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        places = range(len(rows))
        names = [f"{row.case}  [{row.size}]" for row in rows]
        ratios = [row.ratio or 0.0 for row in rows]
        low = [ratio - (row.ratio_low or ratio) for ratio, row in zip(ratios, rows, strict=True)]
        high = [(row.ratio_high or ratio) - ratio for ratio, row in zip(ratios, rows, strict=True)]
        left.barh(places, ratios, height=0.6, color=style.LOOKS[0].color, xerr=(low, high))
        for place, ratio in zip(places, ratios, strict=True):
            left.annotate(
                f"{ratio:.1f}", (0, place), (3, 0), textcoords="offset points", color="white",
                va="center", fontsize=6.5,
            )  # fmt: skip
        left.axvline(1, color="black", linewidth=0.8, linestyle="--")
        left.set(xlabel="Times as fast as the other (whiskers: quartiles)", yticks=places)
        left.set_yticklabels(names)
        left.invert_yaxis()
        fractions = [row.fraction_of_limit or 0.0 for row in rows]
        right.barh(places, fractions, height=0.6, color=style.LOOKS[1].color)
        right.axvline(1, color="black", linewidth=0.8)
        right.set(xlim=(0, 1.08), xlabel="Share of the machine's matrix rate (line: all of it)")
        for axes in (left, right):
            axes.grid(visible=False, axis="y")
        title = "minbert: speed against the alternatives"
        style.save(figure, stem, stamp, notes=(), title=title, caption="")
