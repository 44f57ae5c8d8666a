"""Attention in blocks: where vectors go, and that it is torch's attention of padded rows."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from model_batches import MIXED, random_batch
from torch import Tensor

from minbert.model import attention
from minbert.model.attention import attend, length_ranges, make_blocks

HEADS, SIZE = 3, 4
WIDTH = HEADS * SIZE
LENGTHS = [MIXED, (4, 4, 4), (1, 1), (7,), (*MIXED, 100, 101, 3, 99)]


@pytest.mark.parametrize("lanes", [1, 16])
def test_length_ranges_find_the_cheapest_split(lanes: int) -> None:
    counts = Counter([3, 3, 4, 4, 9, 10, 30, 31, 31, 60])
    lengths = sorted(counts)

    def price(cuts: list[int]) -> float:
        parts = [lengths[a:b] for a, b in pairwise([0, *cuts, len(lengths)])]
        return sum(
            sum(counts[x] for x in p) * p[-1] * (-(-p[-1] // lanes) * lanes) + 100 for p in parts
        )

    every = [
        [i + 1 for i in range(len(lengths) - 1) if bits >> i & 1]
        for bits in range(2 ** (len(lengths) - 1))
    ]
    found = length_ranges(counts, lanes, cost=100)
    assert found[0][0] == 3
    cuts = [lengths.index(low) for low, _ in found[1:]]
    assert price(cuts) == min(map(price, every))


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("one_query", [False, True])
@pytest.mark.parametrize(("lanes", "cost"), [(1, 0), (16, 0), (1, 1500), (32, 1500), (16, 1e9)])
def test_each_vector_has_one_place_and_the_rest_is_masked(
    lengths: tuple[int, ...], one_query: bool, lanes: int, cost: float
) -> None:
    tokens = sum(lengths)
    count = (len(lengths) + 2 * tokens if one_query else 3 * tokens) * HEADS
    contexts = (len(lengths) if one_query else tokens) * HEADS
    found = make_blocks(np.array(lengths), HEADS, one_query, lanes, cost)
    assert torch.equal(found.gather_index[found.scatter_index], torch.arange(count))
    assert torch.equal(found.context_index[found.query_index], torch.arange(contexts))
    assert len(found.padding) == found.queries - contexts
    assert not set(found.padding.tolist()) & set(found.query_index.tolist())
    padded_keys = 0
    for block, queries, keys in found:
        assert queries.stop - queries.start == block.products * block.queries
        assert keys.stop - keys.start == block.products * block.keys
        assert block.keys % lanes == 0
        if block.bias is not None:
            assert set(block.bias.unique().tolist()) == {0.0, -np.inf}
            padded_keys += int(block.bias.isinf().sum())
    assert found.keys == tokens * HEADS + padded_keys
    assert len(found.blocks) == (len(set(lengths)) if cost == 0 else len(found.blocks))
    assert cost < 1e9 or len(found.blocks) == 1


def test_blocks_save_most_of_the_padding() -> None:
    found = make_blocks(np.array([8] * 60 + [200, 210]), 1, one_query=False)
    area = sum(b.products * b.queries * b.keys for b in found.blocks)
    assert area < 62 * 210**2 / 20


def inputs(lengths: tuple[int, ...], one_query: bool, dtype: torch.dtype) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    shapes = [(sum(lengths), (2 if one_query else 3) * WIDTH)]
    shapes += [(len(lengths), WIDTH)] if one_query else []
    made = [torch.randn(s, generator=draw, dtype=torch.float64).to(dtype) for s in shapes]
    return [tensor.requires_grad_() for tensor in made]


def padded(
    projected: Tensor, query: Tensor | None, lengths: tuple[int, ...], window: int | None
) -> Tensor:
    """Return what torch's attention makes of one row after another."""
    rows = []
    for number, row in enumerate(projected.split(list(lengths))):
        parts = [p.view(1, -1, HEADS, SIZE).transpose(1, 2) for p in row.split(WIDTH, dim=1)]
        if query is not None:
            parts.insert(0, query[number].view(1, 1, HEADS, SIZE).transpose(1, 2))
        far = torch.arange(len(row))[:, None] - torch.arange(len(row))
        seen = far.abs() <= (1000 if window is None else window)
        found = torch.nn.functional.scaled_dot_product_attention(
            *parts, attn_mask=seen[: parts[0].shape[2]]
        )
        rows.append(found.transpose(1, 2).reshape(-1, WIDTH))
    return torch.cat(rows)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("one_query", [False, True])
@pytest.mark.parametrize("on", ["cpu", "elsewhere"])
@pytest.mark.parametrize("window", [None, 0, 4, 1000])
def test_contexts_and_gradients_are_those_of_torch_row_by_row(
    lengths: tuple[int, ...], one_query: bool, on: str, window: int | None
) -> None:
    given = inputs(lengths, one_query, torch.float64)
    projected, query = given[0], given[1] if one_query else None
    ours = attend if on == "cpu" else attention._attend_padded
    found = ours(projected, query, random_batch(lengths), HEADS, 0.0, window)
    expected = padded(projected, query, lengths, window)
    upper = torch.randn_like(expected)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(
        torch.autograd.grad(found, given, upper),
        torch.autograd.grad(expected, given, upper),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_bf16_is_fp32_to_three_digits() -> None:
    batch = random_batch()
    (low,) = inputs(MIXED, False, torch.bfloat16)
    full = low.detach().float().requires_grad_()
    ours, exact = (attend(x, None, batch, HEADS, 0.0) for x in (low, full))
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.float(), exact, rtol=0, atol=0.03)
    for found in (ours, exact):
        found.float().square().sum().backward()
    assert low.grad is not None and full.grad is not None
    assert low.grad.dtype == torch.bfloat16
    torch.testing.assert_close(low.grad.float(), full.grad, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("lengths", [(4, 4), MIXED])
@pytest.mark.parametrize("one_query", [False, True])
def test_dropout_loses_weights_and_keeps_their_mean(
    lengths: tuple[int, ...], one_query: bool
) -> None:
    torch.manual_seed(0)
    given = [x.detach() for x in inputs(lengths, one_query, torch.float32)]
    call: list[Any] = [given[0], given[1] if one_query else None, random_batch(lengths), HEADS]
    draws = [attend(*call, 0.5) for _ in range(900)]
    mean, exact = torch.stack(draws).mean(0), attend(*call, 0.0)
    assert (mean - exact).abs().mean() < 0.05
    assert not torch.equal(draws[0], draws[1])


def test_gradients_under_dropout_are_those_of_finite_differences() -> None:
    batch = random_batch((3, 1, 2))
    (projected,) = inputs((3, 1, 2), False, torch.float64)

    def same_draws(x: Tensor) -> Tensor:
        torch.manual_seed(3)
        return attend(x, None, batch, HEADS, 0.4)

    assert not torch.allclose(same_draws(projected), attend(projected, None, batch, HEADS, 0.0))
    assert torch.autograd.gradcheck(same_draws, (projected,))


def test_padding_fills_a_register_of_each_dtype() -> None:
    for dtype, lanes in ((torch.float32, 16), (torch.bfloat16, 32)):
        batch = random_batch((5, 33))
        attend(inputs((5, 33), False, dtype)[0], None, batch, HEADS, 0.0)
        (found,) = batch.blocks.values()
        assert {block.keys % lanes for block in found.blocks} == {0}
