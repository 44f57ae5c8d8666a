"""Attention in blocks, and of first tokens alone: torch's attention of each row."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from model_batches import MIXED, STILL, TINY, alone, random_batch, states_of
from torch import Tensor

from minbert.model import attention
from minbert.model.attention import attend, length_ranges
from minbert.model.encoder import SharedEncoder
from minbert.model.multitask import MultitaskModel
from minbert.spec.architecture import shared_parts
from minbert.spec.stage import StageSpec
from minbert.spec.task import Head, TaskSpec

HEADS, SIZE = 3, 4
WIDTH = HEADS * SIZE
of_one_query = pytest.mark.parametrize("one_query", [False, True])


@pytest.mark.parametrize("lanes", [1, 16])
def test_length_ranges_find_the_cheapest_split(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "GROUP_COST", 100)
    rows = [3, 3, 4, 4, 9, 10, 30, 31, 31, 60]
    lengths = sorted(set(rows))

    def price(groups: list[tuple[int, int]]) -> float:
        members = [sum(low <= row <= high for row in rows) for low, high in groups]
        sizes = [high * -(-high // lanes) * lanes for _, high in groups]
        return sum(n * size + 100 for n, size in zip(members, sizes, strict=True))

    every = []
    for bits in product([False, True], repeat=len(lengths) - 1):
        ends = [n for n, cut in enumerate((*bits, True)) if cut]
        starts = [0, *(n + 1 for n in ends[:-1])]
        every.append([(lengths[a], lengths[b]) for a, b in zip(starts, ends, strict=True)])
    found = length_ranges(np.array(rows), lanes)
    assert found in every and price(found) == min(map(price, every))


def inputs(lengths: tuple[int, ...], one_query: bool, dtype: torch.dtype) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    shapes = [(sum(lengths), (2 if one_query else 3) * WIDTH)]
    shapes += [(len(lengths), WIDTH)] if one_query else []
    made = [torch.randn(s, generator=draw, dtype=torch.float64).to(dtype) for s in shapes]
    return [tensor.requires_grad_() for tensor in made]


def row_by_row(
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


@pytest.mark.parametrize("lengths", [MIXED, (4, 4, 4), (1,), (*MIXED, 100, 101, 3, 99)])
@of_one_query
@pytest.mark.parametrize("how", ["a block a length", "some", "one block", "elsewhere"])
@pytest.mark.parametrize("window", [None, 4])
def test_contexts_and_gradients_are_those_of_torch_row_by_row(
    lengths: tuple[int, ...],
    one_query: bool,
    how: str,
    window: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cost = {"a block a length": 0, "one block": 1e9}.get(how, 1500)
    monkeypatch.setattr(attention, "GROUP_COST", cost)
    given = inputs(lengths, one_query, torch.float64)
    projected, query = given[0], given[1] if one_query else None
    ours = attention._attend_padded if how == "elsewhere" else attend
    found = ours(projected, query, random_batch(lengths), HEADS, 0.0, window)
    expected = row_by_row(projected, query, lengths, window)
    upper = torch.randn_like(expected)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    mine, theirs = (torch.autograd.grad(out, given, upper) for out in (found, expected))
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_bf16_is_fp32_to_three_digits() -> None:
    (low,) = inputs(MIXED, False, torch.bfloat16)
    full = low.detach().float().requires_grad_()
    found = [attend(given, None, random_batch(), HEADS, 0.0, None) for given in (low, full)]
    for each in found:
        each.float().square().sum().backward()
    assert found[0].dtype == low.grad.dtype == torch.bfloat16
    torch.testing.assert_close(found[0].float(), found[1], rtol=0, atol=0.03)
    torch.testing.assert_close(low.grad.float(), full.grad, rtol=0.05, atol=0.1)


@of_one_query
def test_dropout_loses_weights_and_keeps_their_mean(one_query: bool) -> None:
    torch.manual_seed(0)
    given = [x.detach() for x in inputs(MIXED, one_query, torch.float32)]
    call: list[Any] = [given[0], given[1] if one_query else None, random_batch(), HEADS]
    draws = [attend(*call, 0.5, None) for _ in range(400)]
    assert (torch.stack(draws).mean(0) - attend(*call, 0.0, None)).abs().mean() < 0.08
    assert not torch.equal(draws[0], draws[1])


def test_gradients_under_dropout_are_those_of_finite_differences() -> None:
    batch = random_batch((3, 1, 2))
    (projected,) = inputs((3, 1, 2), False, torch.float64)

    def same_draws(x: Tensor) -> Tensor:
        torch.manual_seed(3)
        return attend(x, None, batch, HEADS, 0.4, None)

    assert not torch.allclose(
        same_draws(projected), attend(projected, None, batch, HEADS, 0.0, None)
    )
    assert torch.autograd.gradcheck(same_draws, (projected,))


@pytest.mark.parametrize("shared", ["none", 0, 2, 3])
def test_an_encoders_first_tokens_come_out_as_among_all(shared: int | str) -> None:
    torch.manual_seed(1)
    model = SharedEncoder(TINY, ["sst", "sts"], shared_parts(shared, "bottom", TINY.layers), STILL)
    batch = random_batch()
    found, expected = (states_of(model, "sts", batch, first) for first in (True, False))
    expected = expected[batch.first]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    weights = [p for n, p in model.named_parameters() if "layers" in n and "own.sst" not in n]
    ours, theirs = (torch.autograd.grad(x.square().sum(), weights) for x in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("task", "positions"),
    [({}, len(MIXED)), ({"pooling": "mean"}, sum(MIXED)), ({"convolution": {}}, sum(MIXED))],
)
def test_a_model_computes_what_its_pooling_reads(task: dict[str, Any], positions: int) -> None:
    how = TaskSpec(loss="cross_entropy", head=Head(dropout=0.0), **task)
    model = MultitaskModel(TINY, StageSpec(tasks={"sst": how}, dropout=STILL))
    rows: list[int] = []
    last = model.encoder.shared.layers["2"]
    last.register_forward_hook(lambda _, __, output: rows.append(len(output)))
    alone(model, "sst", random_batch())
    assert rows == [positions]
