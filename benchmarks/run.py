"""One case measured: its sides timed in turn, and a row for each comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.cases import OTHERS, Case
from benchmarks.machine import MatrixRate
from benchmarks.measure import alternate, spread
from benchmarks.sides import Sides
from minbert.train.device import choose_precision

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Row:
    """One line of `bench.json`: ours in one precision against one peer in one precision.

    Speeds are in `unit`; `ratio` is ours over the peer's, with its quartiles over `turns`.
    `fraction_of_limit` is the rate of matrix products in ours over that of large products alone in
    the same precision. `losses_differ_by` compares ours with the peer in fp32, `bf16_differs_by`
    ours in bf16 with ours in fp32, as a share of the loss; both without dropout.
    """

    case: str
    size: str
    device: str
    threads: int
    precision: str
    speed: float
    peer: str | None
    peer_precision: str | None
    peer_speed: float | None
    unit: str
    turns: int
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    fraction_of_limit: float | None
    losses_differ_by: float | None
    bf16_differs_by: float | None


def chosen_precisions(wishes: Sequence[str], device: torch.device) -> list[str]:
    """Return our precisions, fp32 first: where `auto` is bf16, it means fp32 beside it."""
    found = {choose_precision(wish, device) for wish in wishes}
    if "auto" in wishes:
        found.add("fp32")
    return sorted(found, reverse=True)


def comparisons(case: Case, precisions: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return our precision and the peer's of each row of a case, for ours in `precisions`.

    Users of other software have fp32 by default and may have bf16 by autocast; ours in fp32 is
    held against fp32 only. Our own loop done differently has the precision that ours has.
    """
    if case.other is None:
        return [(precision, None) for precision in precisions]
    peers = {"fp32": ["fp32"], "bf16": ["bf16"] if case.other == "passes" else ["fp32", "bf16"]}
    return [(precision, peer) for precision in precisions for peer in peers[precision]]


class Bench:
    """Cases of one size on one device, ours in some `precisions`.

    Each side has `repeats` turns that count, fewer if a case's turns take longer than `seconds`.
    """

    def __init__(
        self,
        folder: Path,
        size: str,
        device: torch.device,
        precisions: Sequence[str],
        repeats: int,
        seconds: float = float("inf"),
    ) -> None:
        self.size = size
        self.sides = Sides(folder, size, device)
        self.device = device
        self.precisions = precisions
        self.repeats = repeats
        self.seconds = seconds
        self.limits = {name: MatrixRate(device, DTYPES[name]) for name in precisions}

    def rates(self) -> dict[str, float]:
        """Return the machine's rate of large matrix products now, by precision."""
        return {name: limit.measure() for name, limit in self.limits.items()}

    def measure(self, case: Case) -> list[Row]:
        """Measure one case; raise `ValueError` if its sides do not compute the same."""
        compared = comparisons(case, self.precisions)
        peers = list(dict.fromkeys(peer for _, peer in compared if peer))
        work = self.sides.build(case, self.precisions, peers)
        before = self.rates()
        taken = alternate(work.sides, self.device, repeats=self.repeats, seconds=self.seconds)
        after = self.rates()
        rows = []
        for precision, peer in compared:
            ours = taken["ours", precision]
            theirs = taken["peer", peer] if peer else None
            pairs = zip(ours, theirs, strict=True) if theirs else None
            ratio = spread([b / a for a, b in pairs]) if pairs else None
            seconds = spread(ours).median
            limit = max(before[precision], after[precision])
            row = Row(
                case=case.name,
                size=self.size,
                device=self.device.type,
                threads=torch.get_num_threads(),
                precision=precision,
                speed=work.examples / seconds,
                peer=OTHERS[case.other] if case.other else None,
                peer_precision=peer,
                peer_speed=work.examples / spread(theirs).median if theirs else None,
                unit="examples/s",
                turns=len(ours),
                ratio=ratio.median if ratio else None,
                ratio_low=ratio.low if ratio else None,
                ratio_high=ratio.high if ratio else None,
                fraction_of_limit=work.operations / seconds / limit if work.operations else None,
                losses_differ_by=work.losses_differ_by,
                bf16_differs_by=work.bf16_differs_by if precision == "bf16" else None,
            )
            rows.append(row)
        return rows
