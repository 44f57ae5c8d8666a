"""Packed batches and the poolings of their rows; padding is never seen."""

from __future__ import annotations

import pytest
import torch
from model_batches import MIXED, TINY, padded_inputs, random_batch
from torch import Tensor

from minbert.model.encoder import Pooler
from minbert.model.packed import Packed, join
from minbert.model.pooling.cls import ClsPooling
from minbert.model.pooling.max import MaxPooling
from minbert.model.pooling.mean import MeanPooling


@pytest.mark.parametrize("lengths", [(*MIXED, 100, 101, 3, 99), (4, 4, 4)])
def test_padded_view_holds_each_token_once_where_its_mask_is_true(lengths: tuple[int, ...]) -> None:
    batch = random_batch(lengths)
    view = batch.padded
    padded = view.pad(batch.tokens[:, None])[:, 0]
    assert len(padded) == view.size == len(lengths) * max(lengths)
    real = torch.ones(view.size, dtype=torch.bool) if view.mask is None else view.mask.reshape(-1)
    assert (view.mask is None) == (len(set(lengths)) == 1)
    assert (padded[~real] == 0).all() and (padded[real] > 0).all()
    assert torch.equal(padded[view.slots], batch.tokens)


def test_joined_batches_are_one_batch_of_all_rows() -> None:
    batches = [random_batch((3, 1)), random_batch((7,), seed=1), random_batch((2, 2), seed=2)]
    joined = join(batches)
    assert joined.lengths.tolist() == [3, 1, 7, 2, 2] and joined.longest == 7
    for name in ("tokens", "types", "positions"):
        parts = [getattr(batch, name) for batch in batches]
        assert torch.equal(getattr(joined, name), torch.cat(parts)), name


def test_what_follows_from_a_batch_is_on_its_device() -> None:
    zeros = torch.zeros(3, dtype=torch.int64, device="meta")
    made = Packed(zeros, zeros, torch.tensor([3], device="meta"), 3)
    assert made.lengths.device.type == made.padded.slots.device.type == "meta"


def padded_hidden(hidden: Tensor, batch: Packed) -> tuple[Tensor, Tensor]:
    """Return `hidden` padded with a poison that no pooling may see, and the mask."""
    mask = padded_inputs(batch)["attention_mask"].bool()
    padded = torch.full((*mask.shape, hidden.shape[1]), 1e30)
    padded[mask] = hidden
    return padded, mask[:, :, None]


def unused(hidden: Tensor) -> Tensor:
    raise AssertionError("this pooling has no use for the pooler")


def test_cls_and_mean_are_those_of_the_real_tokens() -> None:
    batch, hidden = random_batch(), torch.randn(sum(MIXED), 12)
    padded, mask = padded_hidden(hidden, batch)
    expected = (padded * mask).sum(1) / mask.sum(1)
    pooled = MeanPooling()(hidden, batch, unused)
    torch.testing.assert_close(pooled, expected, atol=1e-6, rtol=1e-6)
    pooler = Pooler(TINY)
    expected = torch.tanh(padded[:, 0] @ pooler.dense.weight.T + pooler.dense.bias)
    torch.testing.assert_close(ClsPooling()(hidden, batch, pooler), expected)


def test_max_is_that_of_the_real_tokens_and_so_is_its_gradient() -> None:
    batch = random_batch()
    # All below 0, so that a padding of zeros would win.
    hidden = (-1 - torch.rand(sum(MIXED), 12)).requires_grad_()
    pooled = MaxPooling()(hidden, batch, unused)
    padded, mask = padded_hidden(hidden, batch)
    expected = padded.masked_fill(~mask, -torch.inf).amax(1)
    assert torch.equal(pooled, expected)
    upstream = torch.randn(pooled.shape)
    ours, theirs = (torch.autograd.grad(p, hidden, upstream)[0] for p in (pooled, expected))
    torch.testing.assert_close(ours, theirs)
    # Equal tokens share it.
    hidden = torch.tensor([[2.0], [5.0], [5.0], [7.0], [7.0]], requires_grad=True)
    MaxPooling()(hidden, random_batch((3, 2)), unused).sum().backward()
    assert hidden.grad.squeeze(1).tolist() == [0.0, 0.5, 0.5, 0.5, 0.5]
