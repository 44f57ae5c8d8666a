"""Dropout from random bits: its rate, its mean, and that entries are independent."""

from __future__ import annotations

import pytest
import torch

from minbert.model.dropout import Dropout, add_dropped, dropout, dropout_mask, kept_share


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 1 - 1e-9])
def test_entries_are_lost_with_the_probability_and_the_mean_is_kept(p: float) -> None:
    torch.manual_seed(0)
    factors = dropout_mask(torch.Size((500, 1001)), p)
    lost = (factors == 0).double().mean().item()
    assert lost == pytest.approx(p, abs=4 * (p * (1 - p) / factors.numel()) ** 0.5 + 2e-5)
    assert set(factors.unique().tolist()) <= {0.0, 1.0}
    assert kept_share(p) == pytest.approx(1 - p, abs=2e-5)


def test_every_place_of_a_drawn_word_is_used_alike() -> None:
    torch.manual_seed(1)
    lost = (dropout_mask(torch.Size((200_000,)), 0.25) == 0).view(-1, 4).double()
    assert lost.mean(0).tolist() == pytest.approx([0.25] * 4, abs=0.01)
    together = (lost.T @ lost) / len(lost) - 0.25**2
    assert together.fill_diagonal_(0.0).abs().max() < 0.005


def test_draws_follow_torchs_generator() -> None:
    torch.manual_seed(2)
    first, second = dropout_mask(torch.Size((7, 3)), 0.5), dropout_mask(torch.Size((7, 3)), 0.5)
    torch.manual_seed(2)
    assert torch.equal(dropout_mask(torch.Size((7, 3)), 0.5), first)
    assert not torch.equal(first, second)


def test_gradients_go_where_the_entries_went() -> None:
    torch.manual_seed(3)
    x = torch.ones(9, 5, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())
    assert y.unique().tolist() == pytest.approx([0.0, 1 / 0.6], rel=1e-4)


def test_none_in_evaluation_or_at_zero() -> None:
    x = torch.randn(4, 4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert not torch.equal(Dropout(0.5)(x), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_adding_what_is_left_is_the_same_in_one_pass(dtype: torch.dtype) -> None:
    x, change, upper = (torch.randn(40, 6).to(dtype) for _ in range(3))
    for given in (x, change):
        given.requires_grad_()
    torch.manual_seed(5)
    found = add_dropped(x, change, 0.3)
    torch.manual_seed(5)
    expected = x + dropout(change, 0.3)
    tolerance = {"rtol": 0.02, "atol": 0.02} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(found, expected, **tolerance)
    gradients = (torch.autograd.grad(out, (x, change), upper) for out in (found, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance)
    assert Dropout(0.3).eval().add(x, change).equal(x + change)
