from __future__ import annotations

import pytest
import torch
from model_batches import MIXED, pack, random_batch

from minbert.model.packed import Packed, join


def test_layout_of_three_rows() -> None:
    batch = pack([7, 8, 9, 5, 6, 4], [0, 0, 1, 0, 0, 0], [3, 2, 1])
    assert batch.rows == 3
    assert batch.longest == 3
    assert batch.first.tolist() == [0, 3, 5]
    assert batch.row_of.tolist() == [0, 0, 0, 1, 1, 2]
    assert batch.positions.tolist() == [0, 1, 2, 0, 1, 0]


@pytest.mark.parametrize("lengths", [(*MIXED, 100, 101, 3, 99), (4, 4, 4)])
def test_padded_view_holds_each_token_once_where_its_mask_is_true(lengths: tuple[int, ...]) -> None:
    batch = random_batch(lengths)
    view = batch.padded
    padded = view.pad(batch.tokens[:, None])[:, 0]
    assert len(padded) == view.size == len(lengths) * max(lengths)
    real = torch.ones(view.size, dtype=torch.bool) if view.mask is None else view.mask.reshape(-1)
    assert (view.mask is None) == (len(set(lengths)) == 1)
    assert (padded[~real] == 0).all()
    assert (padded[real] > 0).all()
    assert torch.equal(padded[view.slots], batch.tokens)


def test_joined_batches_are_one_batch_of_all_rows() -> None:
    batches = [random_batch((3, 1)), random_batch((7,), seed=1), random_batch((2, 2), seed=2)]
    joined = join(batches)
    assert joined.lengths.tolist() == [3, 1, 7, 2, 2]
    assert joined.longest == 7
    for name in ("tokens", "types", "positions"):
        parts = [getattr(batch, name) for batch in batches]
        assert torch.equal(getattr(joined, name), torch.cat(parts)), name


def test_what_follows_from_a_batch_is_on_its_device() -> None:
    zeros = torch.zeros(3, dtype=torch.int64, device="meta")
    made = Packed(zeros, zeros, torch.tensor([3], device="meta"), 3)
    assert made.lengths.device.type == made.padded.slots.device.type == "meta"
