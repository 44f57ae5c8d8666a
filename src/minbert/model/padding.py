"""The padded view of a packed batch, which attention alone needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

GROUP_COST = 1500
"""What one more group costs on a CPU, in attention scores a head.

Measured on the shapes of the built-in backbone and of MiniLM, 16 and 128 rows: from 500 to 5,000
the speed is flat to a few per cent; fewer groups compute on padding, more start many small kernels.
"""


@dataclass(frozen=True)
class Group:
    """Rows of like length, padded to the longest among them.

    `mask` is True at real tokens, bool [rows, 1, 1, longest], or None if no row has padding.
    """

    rows: int
    longest: int
    mask: Tensor | None


@dataclass(frozen=True)
class PaddedView:
    """The groups' padded rows, end to end: `size` slots in all.

    `slots` is the slot of each token of the packed batch, int64 [T]; `order` has the rows of the
    packed batch as they come in the groups, int64 [B].
    """

    slots: Tensor
    size: int
    groups: tuple[Group, ...]
    order: Tensor

    def pad(self, packed: Tensor) -> Tensor:
        """Return `packed` [T, N] in its slots, [size, N], and zeros between."""
        zeros = packed.new_zeros(self.size, packed.shape[1])
        return zeros.index_copy(0, self.slots, packed)

    @cached_property
    def place(self) -> Tensor:
        """Place of each row in `order`, int64 [B]."""
        return self.order.argsort()


def padded_view(
    lengths: Tensor, longest: int, row_of: Tensor, positions: Tensor, *, grouped: bool
) -> PaddedView:
    """Return the padded view of rows of `lengths` [B]; `row_of` and `positions` are a token's [T].

    If `grouped`, rows of like length are together, or attention on a CPU would spend most of its
    time on padding; the order of rows inside the packed batch stays. If not, all rows are one
    group: an accelerator would rather start one kernel than many, and nothing waits for it.
    """
    if not grouped:
        rows = lengths.shape[0]
        even = positions.shape[0] == rows * longest
        group = Group(rows, longest, None if even else _mask(lengths, longest))
        order = torch.arange(rows, device=lengths.device)
        return PaddedView(row_of * longest + positions, rows * longest, (group,), order)
    starts = torch.empty_like(lengths)
    groups = []
    size = 0
    for low, high in length_ranges(Counter(lengths.tolist()), GROUP_COST):
        members = ((lengths >= low) & (lengths <= high)).nonzero()[:, 0]
        rows = members.shape[0]
        starts[members] = size + torch.arange(rows, device=lengths.device) * high
        size += rows * high
        groups.append(Group(rows, high, None if low == high else _mask(lengths[members], high)))
    return PaddedView(starts[row_of] + positions, size, tuple(groups), starts.argsort())


def length_ranges(counts: Mapping[int, int], cost: float) -> list[tuple[int, int]]:
    """Return the shortest and longest length of each group, the cheapest way to split `counts`.

    `counts` has the number of rows of each length. A group of n rows up to L long costs
    n * L**2 + `cost`; the best split of the sorted lengths is found by dynamic programming.
    """
    lengths = sorted(counts)
    best = [0.0]
    cut = [0]
    for end, longest in enumerate(lengths, start=1):
        choices = []
        rows = 0
        for begin in reversed(range(end)):
            rows += counts[lengths[begin]]
            choices.append((best[begin] + rows * longest**2 + cost, begin))
        cheapest, begin = min(choices)
        best.append(cheapest)
        cut.append(begin)
    ranges = []
    end = len(lengths)
    while end:
        ranges.append((lengths[cut[end]], lengths[end - 1]))
        end = cut[end]
    return ranges[::-1]


def _mask(lengths: Tensor, longest: int) -> Tensor:
    places = torch.arange(longest, device=lengths.device)
    return (places < lengths[:, None])[:, None, None, :]
