from __future__ import annotations

import pytest
import torch
from model_batches import MIXED, TINY, padded_inputs, random_batch
from torch import Tensor

from minbert.model.encoder import Pooler
from minbert.model.heads import join
from minbert.model.heads.mlp import MLPHead
from minbert.model.packed import Packed
from minbert.model.pooling.cls import ClsPooling
from minbert.model.pooling.max import MaxPooling
from minbert.model.pooling.mean import MeanPooling
from minbert.spec.task import Head


def padded_hidden(hidden: Tensor, batch: Packed) -> tuple[Tensor, Tensor]:
    """Return `hidden` padded with a poison that no pooling may see, and the mask."""
    mask = padded_inputs(batch)["attention_mask"].bool()
    padded = torch.full((*mask.shape, hidden.shape[1]), 1e30)
    padded[mask] = hidden
    return padded, mask


def unused(hidden: Tensor) -> Tensor:
    raise AssertionError("this pooling has no use for the pooler")


def test_mean_is_that_of_the_real_tokens() -> None:
    batch = random_batch()
    hidden = torch.randn(sum(MIXED), 12)
    padded, mask = padded_hidden(hidden, batch)
    expected = (padded * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]
    pooled = MeanPooling()(hidden, batch, unused)
    torch.testing.assert_close(pooled, expected, atol=1e-6, rtol=1e-6)


def test_max_is_that_of_the_real_tokens_and_so_is_its_gradient() -> None:
    batch = random_batch()
    # All below 0, so that a padding of zeros would win.
    hidden = (-1 - torch.rand(sum(MIXED), 12)).requires_grad_()
    pooled = MaxPooling()(hidden, batch, unused)
    padded, mask = padded_hidden(hidden, batch)
    expected = padded.masked_fill(~mask[:, :, None], -torch.inf).amax(1)
    assert torch.equal(pooled, expected)
    upstream = torch.randn(pooled.shape)
    ours, theirs = (torch.autograd.grad(p, hidden, upstream)[0] for p in (pooled, expected))
    torch.testing.assert_close(ours, theirs)
    for row, part in enumerate(hidden.split(list(MIXED))):
        alone = MaxPooling()(part, random_batch((len(part),)), unused)
        assert torch.equal(alone[0], pooled[row])


def test_max_shares_its_gradient_among_equal_tokens() -> None:
    hidden = torch.tensor([[2.0], [5.0], [5.0], [7.0], [7.0]], requires_grad=True)
    MaxPooling()(hidden, random_batch((3, 2)), unused).sum().backward()
    assert hidden.grad is not None
    assert hidden.grad.squeeze(1).tolist() == [0.0, 0.5, 0.5, 0.5, 0.5]


def test_cls_is_the_pooler_of_each_first_token() -> None:
    batch = random_batch()
    hidden = torch.randn(sum(MIXED), 12)
    padded, _ = padded_hidden(hidden, batch)
    pooler = Pooler(TINY)
    expected = torch.tanh(padded[:, 0] @ pooler.dense.weight.T + pooler.dense.bias)
    torch.testing.assert_close(ClsPooling()(hidden, batch, pooler), expected)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_head_is_linear_maps_with_relu_between(depth: int) -> None:
    head = MLPHead(6, 3, Head(depth=depth, width=7, dropout=0.5)).eval()
    sizes = [(m.in_features, m.out_features) for m in head.modules() if hasattr(m, "in_features")]
    assert sizes == list(zip([6, *[7] * (depth - 1)], [*[7] * (depth - 1), 3], strict=True))
    embedding = torch.randn(5, 6)
    expected = embedding
    for n, linear in enumerate(head.linears):
        expected = linear(expected.relu() if n else expected)
    torch.testing.assert_close(head(embedding), expected)


def test_head_drops_its_input_and_its_inside_in_training_only() -> None:
    torch.manual_seed(0)
    embedding = torch.ones(4000, 1)
    shallow = MLPHead(1, 1, Head(dropout=0.25))
    shallow.linears[0].weight.data.fill_(1.0)
    shallow.linears[0].bias.data.fill_(0.0)
    logits = shallow(embedding)
    assert logits.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float((logits == 0).float().mean()) == pytest.approx(0.25, abs=0.03)
    assert torch.equal(shallow.eval()(embedding), embedding)
    deep = MLPHead(1, 1, Head(depth=2, width=1, dropout=0.25))
    for linear in deep.linears:
        linear.weight.data.fill_(1.0)
        linear.bias.data.fill_(0.0)
    dropped = float((deep(embedding) == 0).float().mean())
    assert dropped == pytest.approx(1 - 0.75**2, abs=0.03)


def test_pair_features() -> None:
    u, v = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 5.0]])
    joined = join(u, v, ("u", "v", "u*v", "|u-v|"))
    assert joined.tolist() == [[1, -2, 3, 5, 3, -10, 2, 7]]
    assert join(u, v, ("|u-v|", "u")).tolist() == [[2, 7, 1, -2]]
