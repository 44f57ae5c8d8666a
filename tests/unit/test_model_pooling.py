"""Packed batches and the poolings of their rows; padding is never seen."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_batches import STILL, TINY, pack, random_batch

from minbert.model.encoder import whole_encoder
from minbert.model.packed import join
from minbert.model.pooling.max import MaxPooling


@settings(max_examples=80)
@given(
    rows=st.lists(st.lists(st.integers(1, 999), min_size=1, max_size=30), min_size=1, max_size=12)
)
def test_packing_loses_and_adds_no_token(rows: list[list[int]]) -> None:
    tokens = [token for each in rows for token in each]
    batch = pack(tokens, [0] * len(tokens), [len(each) for each in rows])
    assert [part.tolist() for part in batch.tokens.split(batch.lengths.tolist())] == rows
    assert batch.longest == max(map(len, rows)) and batch.rows == len(rows)
    assert batch.tokens[batch.first].tolist() == [each[0] for each in rows]
    assert batch.positions.tolist() == [i for each in rows for i in range(len(each))]
    assert batch.row_of.tolist() == [n for n, each in enumerate(rows) for _ in each]
    width = batch.longest
    assert batch.slots.tolist() == [
        n * width + i for n, row in enumerate(rows) for i in range(len(row))
    ]


def test_joined_batches_are_one_batch_of_all_rows() -> None:
    batches = [random_batch((3, 1)), random_batch((7,), seed=1), random_batch((2, 2), seed=2)]
    joined = join(batches)
    assert joined.lengths.tolist() == [3, 1, 7, 2, 2] and joined.longest == 7
    for name in ("tokens", "types", "positions"):
        parts = [getattr(batch, name) for batch in batches]
        assert torch.equal(getattr(joined, name), torch.cat(parts)), name


def test_equal_tokens_share_the_gradient_of_max() -> None:
    pooler = whole_encoder(TINY, STILL).pooler
    hidden = torch.tensor([[2.0], [5.0], [5.0], [7.0], [7.0]], requires_grad=True)
    MaxPooling()(hidden, random_batch((3, 2)), pooler).sum().backward()
    assert hidden.grad.squeeze(1).tolist() == [0.0, 0.5, 0.5, 0.5, 0.5]
