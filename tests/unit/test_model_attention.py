"""Attention in blocks, and of first tokens alone: torch's attention of each row."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from model_batches import MIXED, STILL, TINY, alone, random_batch, states_of
from torch import Tensor

from minbert.model import attention
from minbert.model import encoder as encoder_module
from minbert.model.attention import attend, length_ranges, make_blocks
from minbert.model.encoder import initialise, whole_encoder
from minbert.model.multitask import MultitaskModel
from minbert.model.sharing import SharedEncoder
from minbert.spec.architecture import shared_parts
from minbert.spec.stage import StageSpec
from minbert.spec.task import Head, TaskSpec

HEADS, SIZE = 3, 4
WIDTH = HEADS * SIZE
LENGTHS = [MIXED, (4, 4, 4), (1, 1), (7,), (*MIXED, 100, 101, 3, 99)]
of_lengths = pytest.mark.parametrize("lengths", LENGTHS)
of_one_query = pytest.mark.parametrize("one_query", [False, True])


@pytest.fixture(params=[0, 1500, 1e9], ids=["a block a length", "some", "one block"])
def cost(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """What one more block costs."""
    found: float = request.param
    monkeypatch.setattr(attention, "GROUP_COST", found)
    return found


@pytest.mark.parametrize("lanes", [1, 16])
def test_length_ranges_find_the_cheapest_split(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "GROUP_COST", 100)
    counts = Counter([3, 3, 4, 4, 9, 10, 30, 31, 31, 60])
    lengths = sorted(counts)

    def price(cuts: list[int]) -> float:
        parts = [lengths[a:b] for a, b in pairwise([0, *cuts, len(lengths)])]
        keys = [-(-part[-1] // lanes) * lanes for part in parts]
        rows = [sum(counts[n] for n in part) for part in parts]
        return sum(n * p[-1] * k + 100 for n, p, k in zip(rows, parts, keys, strict=True))

    places = range(1, len(lengths))
    every = [[n for n in places if bits >> n & 1] for bits in range(0, 2 ** len(lengths), 2)]
    found = length_ranges(counts, lanes)
    assert found[0][0] == 3 and found[-1][1] == 60
    cuts = [lengths.index(low) for low, _ in found[1:]]
    assert price(cuts) == min(map(price, every))


def test_blocks_save_most_of_the_padding_and_fill_a_register_of_each_dtype() -> None:
    found = make_blocks(np.array([8] * 60 + [200, 210]), 1, one_query=False)
    sides = [(b.products, b.queries, b.keys) for b in found.blocks]
    area = sum((q.stop - q.start) * (k.stop - k.start) / n for n, q, k in sides)
    assert area < 62 * 210**2 / 20
    for dtype, lanes in ((torch.float32, 16), (torch.bfloat16, 32)):
        batch = random_batch((5, 33))
        attend(inputs((5, 33), False, dtype)[0], None, batch, HEADS, 0.0)
        (blocks,) = batch._derived.values()
        assert {(b.keys.stop - b.keys.start) // b.products % lanes for b in blocks.blocks} == {0}


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


@of_lengths
@of_one_query
@pytest.mark.parametrize("on", ["cpu", "elsewhere"])
@pytest.mark.parametrize("window", [None, 0, 4, 1000])
def test_contexts_and_gradients_are_those_of_torch_row_by_row(
    lengths: tuple[int, ...], one_query: bool, on: str, window: int | None, cost: float
) -> None:
    given = inputs(lengths, one_query, torch.float64)
    projected, query = given[0], given[1] if one_query else None
    ours = attend if on == "cpu" else attention._attend_padded
    found = ours(projected, query, random_batch(lengths), HEADS, 0.0, window)
    expected = row_by_row(projected, query, lengths, window)
    upper = torch.randn_like(expected)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    mine, theirs = (torch.autograd.grad(out, given, upper) for out in (found, expected))
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_bf16_is_fp32_to_three_digits() -> None:
    (low,) = inputs(MIXED, False, torch.bfloat16)
    full = low.detach().float().requires_grad_()
    ours, exact = (attend(x, None, random_batch(), HEADS, 0.0) for x in (low, full))
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.float(), exact, rtol=0, atol=0.03)
    for found in (ours, exact):
        found.float().square().sum().backward()
    assert low.grad.dtype == torch.bfloat16
    torch.testing.assert_close(low.grad.float(), full.grad, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("lengths", [(4, 4), MIXED])
@of_one_query
def test_dropout_loses_weights_and_keeps_their_mean(
    lengths: tuple[int, ...], one_query: bool
) -> None:
    torch.manual_seed(0)
    given = [x.detach() for x in inputs(lengths, one_query, torch.float32)]
    call: list[Any] = [given[0], given[1] if one_query else None, random_batch(lengths), HEADS]
    draws = [attend(*call, 0.5) for _ in range(900)]
    assert (torch.stack(draws).mean(0) - attend(*call, 0.0)).abs().mean() < 0.05
    assert not torch.equal(draws[0], draws[1])


def test_gradients_under_dropout_are_those_of_finite_differences() -> None:
    batch = random_batch((3, 1, 2))
    (projected,) = inputs((3, 1, 2), False, torch.float64)

    def same_draws(x: Tensor) -> Tensor:
        torch.manual_seed(3)
        return attend(x, None, batch, HEADS, 0.4)

    assert not torch.allclose(same_draws(projected), attend(projected, None, batch, HEADS, 0.0))
    assert torch.autograd.gradcheck(same_draws, (projected,))


@of_lengths
@pytest.mark.parametrize("on", ["cpu", "elsewhere"])
def test_an_encoders_first_tokens_come_out_as_among_all(
    lengths: tuple[int, ...], on: str, cost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on == "elsewhere":
        monkeypatch.setattr(encoder_module, "attend", attention._attend_padded)
    torch.manual_seed(0)
    arch = TINY.model_copy(update={"positions": max(lengths) + 8})
    model, batch = whole_encoder(arch, STILL), random_batch(lengths)
    initialise(model)
    expected, found = model(batch)[batch.first], model(batch, first_only=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    weights = list(model.layers.parameters())
    ours, theirs = (torch.autograd.grad(x.square().sum(), weights) for x in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shared", ["none", 0, 2, 3])
def test_first_tokens_come_out_alike_whatever_is_shared(shared: int | str) -> None:
    torch.manual_seed(1)
    model = SharedEncoder(TINY, ["sst", "sts"], shared_parts(shared, "bottom", TINY.layers), STILL)
    batch = random_batch()
    first = states_of(model, "sts", batch, first_only=True)
    torch.testing.assert_close(first, states_of(model, "sts", batch)[batch.first])


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
