"""The table that is printed, `bench.json`, and the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from benchmarks.run import Row
from minbert.base.environment import commit
from minbert.base.files import write_json
from minbert.figures import style

HEADER = ("case", "size", "ours", "peer", "ratio (quartiles)", "of the matrix rate", "peer is")

PAIRS = {
    ("bf16", "fp32"): style.LOOKS[0].color,
    ("bf16", "bf16"): style.LOOKS[1].color,
    ("fp32", "fp32"): style.LOOKS[3].color,
}
"""The colours of our precision against the peer's."""


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


def draw_ratios(rows: Sequence[Row], rates: Mapping[str, float], out: Path) -> None:
    """Draw `bench.{png,pdf}` in `out`: the rows that have a peer."""
    if compared := [row for row in rows if row.ratio is not None]:
        draw(compared, about(rows, rates), out / "bench")


def draw(rows: Sequence[Row], stamp: str, stem: Path) -> None:
    """Draw speed-ups as bars, and beside them how near ours comes to the machine's limit.

    A case's bars stand together; its share of the limit is drawn once for each of our precisions.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(f"{row.case}  [{row.size}]\n{row.peer}", []).append(row)
    places, place = {}, 0.0
    for group in groups.values():
        for row in group:
            places[row], place = place, place + 1
        place += 0.6
    with style.style():
        height = 1.1 + 0.2 * place
        figure, (left, right) = style.panels(2, height, sharey=True, width_ratios=(3, 2))
        shares: set[tuple[str, ...]] = set()
        for row, at in places.items():
            _bar(left, row, at)
            measured = (row.case, row.size, row.peer or "", row.precision)
            if row.fraction_of_limit and measured not in shares:
                shares.add(measured)
                right.barh(at, row.fraction_of_limit, height=0.8, color="0.4")
                text = f"{row.precision}: {row.fraction_of_limit:.0%}"
                _beside(right, text, row.fraction_of_limit, at, inside=row.fraction_of_limit > 0.4)
        left.axvline(1, color="black", linewidth=0.8)
        _scale(left, rows)
        middles = [sum(places[row] for row in group) / len(group) for group in groups.values()]
        left.set_yticks(middles, list(groups))
        left.invert_yaxis()
        right.axvline(1, color="black", linewidth=0.8)
        right.set(xlim=(0, 1.05), xlabel="Ours: share of the matrix rate", xticks=(0, 0.5, 1))
        for axes in (left, right):
            axes.grid(visible=False, axis="y")
            axes.set_axisbelow(True)
            axes.tick_params(axis="y", length=0)
        used = {(row.precision, row.peer_precision or "") for row in rows}
        for (ours, peer), color in PAIRS.items():
            if (ours, peer) in used:  # a patch of no size, for the legend
                left.add_patch(
                    Rectangle((1, 0), 0, 0, color=color, label=f"ours in {ours}, peer in {peer}")
                )
        style.finish(figure, (), stamp)
        style.save(figure, stem, "minbert: speed against the alternatives", "")


def _bar(axes: Axes, row: Row, at: float) -> None:
    """Draw one row's ratio from 1 on, its quartiles, and its value and precisions beside it."""
    ratio = row.ratio or 0.0
    low, high = ratio - (row.ratio_low or ratio), (row.ratio_high or ratio) - ratio
    color = PAIRS[row.precision, row.peer_precision or ""]
    axes.barh(at, ratio - 1, left=1, height=0.8, color=color, xerr=((low,), (high,)))
    text = f"{ratio:.{0 if ratio >= 100 else 1}f}  {row.precision} / {row.peer_precision}"
    _beside(axes, text, max(1.0, ratio + high), at)


def _beside(axes: Axes, text: str, right: float, at: float, inside: bool = False) -> None:
    """Write `text` beside a bar that ends at `right`, or `inside` its end."""
    place = {"ha": "right", "color": "white"} if inside else {"ha": "left", "color": "black"}
    offset = {"xytext": (-4 if inside else 4, 0), "textcoords": "offset points"}
    axes.annotate(text, (right, at), va="center", fontsize=6.5, **offset, **place)


def _scale(axes: Axes, rows: Sequence[Row]) -> None:
    """Make the axis of ratios logarithmic, with room for the numbers beside the bars."""
    low = min(row.ratio_low or 1.0 for row in rows)
    high = max(row.ratio_high or 1.0 for row in rows)
    limits = (min(0.9, 0.9 * low), max(3.0, high) ** 1.45)
    axes.set(xscale="log", xlim=limits, xlabel="Times as fast as the peer (whiskers: quartiles)")
    steps = (1, 2, 5) if limits[1] < 100 else (1,)
    ticks = [step * 10**power for power in range(-2, 5) for step in steps]
    ticks = [tick for tick in ticks if limits[0] <= tick <= limits[1]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
