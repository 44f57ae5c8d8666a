"""The table that is printed, and `bench.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.run import Row
from minbert.base.environment import commit
from minbert.base.files import write_json

HEADER = ("case", "size", "ours", "peer", "ratio (quartiles)", "of the matrix rate", "peer is")


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table; speeds in examples a second."""
    return f"{_line(HEADER)}\n{_line(['---'] * len(HEADER))}\n{lines(rows)}"


def lines(rows: Sequence[Row]) -> str:
    """Return the rows as lines of the table, without its head."""
    return "\n".join(_line(_cells(row)) for row in rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Row) -> tuple[str, ...]:
    ratio = ""
    if row.ratio is not None:
        ratio = f"**{row.ratio:.2f}** ({row.ratio_low:.2f} to {row.ratio_high:.2f})"
    return (
        row.case,
        row.size,
        f"{row.speed:,.0f} in {row.precision}",
        "" if row.peer_speed is None else f"{row.peer_speed:,.0f} in {row.peer_precision}",
        ratio,
        "" if row.fraction_of_limit is None else f"{row.fraction_of_limit:.0%}",
        row.peer or "",
    )


def about(rows: Sequence[Row], rates: Mapping[str, float]) -> str:
    """Return where the rows were measured; `rates` are the matrix rates, a second, by precision."""
    first = rows[0]
    threads = f"{first.threads} thread{'s' if first.threads > 1 else ''}"
    large = ", ".join(f"{rate / 1e9:,.0f} GFLOP/s in {name}" for name, rate in rates.items())
    return (
        f"{first.device}, {threads}, torch {torch.__version__}, commit {commit()}; "
        f"large matrix products: {large}. Speeds in examples/s. {_agreement(rows)}"
    )


def _agreement(rows: Sequence[Row]) -> str:
    """Return how far losses differed at most, in words."""
    found = []
    if differ := [row.losses_differ_by for row in rows if row.losses_differ_by is not None]:
        found.append(f"at most {max(differ):.1g} from the peers' in fp32")
    if bf16 := [row.bf16_differs_by for row in rows if row.bf16_differs_by is not None]:
        found.append(f"at most {max(bf16):.2%} from fp32's in bf16")
    return f"Losses: {', '.join(found)}." if found else ""


def save(rows: Sequence[Row], rates: Mapping[str, float], out: Path) -> None:
    """Write `bench.json` to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    where = about(rows, rates)
    write_json(out / "bench.json", {"about": where, "rows": [asdict(row) for row in rows]})
