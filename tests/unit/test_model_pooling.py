"""Packed batches and the poolings of their rows; padding is never seen."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_batches import MIXED, TINY, pack, padded_inputs, random_batch
from torch import Tensor

from minbert.model.encoder import Pooler
from minbert.model.packed import Packed, join
from minbert.model.pooling.cls import ClsPooling
from minbert.model.pooling.max import MaxPooling
from minbert.model.pooling.mean import MeanPooling


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
    padded = batch.pad(batch.tokens[:, None])[:, 0]
    assert torch.equal(padded[batch.slots], batch.tokens)
    assert len(padded) == batch.rows * batch.longest and (padded != 0).sum() == len(tokens)


def test_joined_batches_are_one_batch_of_all_rows() -> None:
    batches = [random_batch((3, 1)), random_batch((7,), seed=1), random_batch((2, 2), seed=2)]
    joined = join(batches)
    assert joined.lengths.tolist() == [3, 1, 7, 2, 2] and joined.longest == 7
    for name in ("tokens", "types", "positions"):
        parts = [getattr(batch, name) for batch in batches]
        assert torch.equal(getattr(joined, name), torch.cat(parts)), name


def padded_hidden(hidden: Tensor, batch: Packed) -> tuple[Tensor, Tensor]:
    """Return `hidden` padded with a poison that no pooling may see, and the mask."""
    mask = padded_inputs(batch)["attention_mask"].bool()
    padded = torch.full((*mask.shape, hidden.shape[1]), 1e30)
    padded[mask] = hidden
    return padded, mask[:, :, None]


def test_cls_and_mean_are_those_of_the_real_tokens() -> None:
    batch, hidden, pooler = random_batch(), torch.randn(sum(MIXED), 12), Pooler(TINY)
    padded, mask = padded_hidden(hidden, batch)
    expected = (padded * mask).sum(1) / mask.sum(1)
    torch.testing.assert_close(MeanPooling()(hidden, batch, pooler), expected)
    expected = torch.tanh(padded[:, 0] @ pooler.dense.weight.T + pooler.dense.bias)
    torch.testing.assert_close(ClsPooling()(hidden, batch, pooler), expected)


def test_max_is_that_of_the_real_tokens_and_equal_tokens_share_its_gradient() -> None:
    batch, pooler = random_batch(), Pooler(TINY)
    # All below 0, so that a padding of zeros would win.
    hidden = -1 - torch.rand(sum(MIXED), 12)
    padded, mask = padded_hidden(hidden, batch)
    expected = padded.masked_fill(~mask, -torch.inf).amax(1)
    assert torch.equal(MaxPooling()(hidden, batch, pooler), expected)
    hidden = torch.tensor([[2.0], [5.0], [5.0], [7.0], [7.0]], requires_grad=True)
    MaxPooling()(hidden, random_batch((3, 2)), pooler).sum().backward()
    assert hidden.grad.squeeze(1).tolist() == [0.0, 0.5, 0.5, 0.5, 0.5]
