from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
import torch
from model_batches import MIXED, pack, random_batch

from minbert.model.packed import Packed, length_ranges, padded_view


def test_layout_of_three_rows() -> None:
    batch = pack([7, 8, 9, 5, 6, 4], [0, 0, 1, 0, 0, 0], [3, 2, 1])
    assert batch.rows == 3
    assert batch.longest == 3
    assert batch.first.tolist() == [0, 3, 5]
    assert batch.row_of.tolist() == [0, 0, 0, 1, 1, 2]
    assert batch.positions.tolist() == [0, 1, 2, 0, 1, 0]


@pytest.mark.parametrize("grouped", [True, False])
def test_padded_view_holds_each_token_once_where_its_mask_is_true(grouped: bool) -> None:
    lengths = (*MIXED, 100, 101, 3, 99)
    batch = random_batch(lengths)
    view = padded_view(batch.lengths, batch.longest, batch.row_of, batch.positions, grouped=grouped)
    padded = view.pad(batch.tokens[:, None])[:, 0]
    real = torch.cat(
        [
            (torch.ones(g.rows, g.longest) if g.mask is None else g.mask).reshape(-1).bool()
            for g in view.groups
        ]
    )
    assert sum(g.rows * g.longest for g in view.groups) == view.size == len(real)
    assert (padded[~real] == 0).all()
    assert (padded[real] > 0).all()
    assert torch.equal(padded[view.slots], batch.tokens)
    assert len(view.groups) == 1 or grouped


def test_groups_save_most_of_the_padding() -> None:
    batch = random_batch((*[8] * 60, 200, 210))
    area = sum(g.rows * g.longest**2 for g in batch.padded.groups)
    assert area < 62 * 210**2 / 20


def test_rows_of_one_length_need_no_mask_and_stay_in_place() -> None:
    batch = random_batch((4, 4, 4))
    for grouped in (True, False):
        view = padded_view(
            batch.lengths, batch.longest, batch.row_of, batch.positions, grouped=grouped
        )
        assert [g.mask for g in view.groups] == [None]
        assert torch.equal(view.slots, torch.arange(12))


def test_length_ranges_find_the_cheapest_split() -> None:
    counts = Counter([3, 3, 4, 4, 9, 10, 30, 31, 31, 60])
    lengths = sorted(counts)

    def price(cuts: list[int]) -> float:
        parts = [lengths[a:b] for a, b in pairwise([0, *cuts, len(lengths)])]
        return sum(sum(counts[x] for x in p) * p[-1] ** 2 + 100 for p in parts)

    every = [
        [i + 1 for i in range(len(lengths) - 1) if bits >> i & 1]
        for bits in range(2 ** (len(lengths) - 1))
    ]
    found = length_ranges(counts, cost=100)
    assert found[0][0] == 3
    cuts = [lengths.index(low) for low, _ in found[1:]]
    assert price(cuts) == min(map(price, every))


def test_groups_are_few_when_a_group_is_dear() -> None:
    counts = Counter(range(1, 50))
    assert length_ranges(counts, cost=1e9) == [(1, 49)]
    assert len(length_ranges(counts, cost=0)) == 49


def test_what_follows_from_a_batch_is_on_its_device() -> None:
    zeros = torch.zeros(3, dtype=torch.int64, device="meta")
    made = Packed(zeros, zeros, torch.tensor([3], device="meta"), 3)
    assert made.lengths.device.type == made.padded.slots.device.type == "meta"
