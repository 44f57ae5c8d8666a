"""Batches of fixed shapes: fillers change no loss and no gradient, and waste little."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from recording import Again
from stepping import CPU, STEP, assert_same, learner, losses

from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.train.buckets import LENGTH, Shape, StaticBatch, filled, shape_of
from minbert.train.examples import Sequences
from minbert.train.finetune import Finetuned
from minbert.train.graphs import Graphs
from minbert.train.samplers import Step
from minbert.train.step import Gradients

SIAMESE = {"pairing": "siamese", "features": ["u", "v", "|u-v|"]}
KINDS: dict[str, dict[str, Any]] = {
    "cls": {},
    "mean": {"everywhere": {"pooling": "mean"}},
    "max": {"everywhere": {"pooling": "max"}},
    "siamese": {"tasks": {"sst": {}, "para": SIAMESE, "sts": {**SIAMESE, "pooling": "mean"}}},
    "convolution": {"everywhere": {"convolution": {"kernel": 3}}},
    "hybrid": {"shared_layers": 1},
    "adapters": {"trainable": "adapters", "adapter": {"width": 4}},
}


@given(st.lists(st.integers(2, 128), min_size=1, max_size=200), st.integers(0, 40))
def test_fillers_take_exactly_what_is_missing(rows: list[int], more: int) -> None:
    lengths, most = np.array(rows), max(rows) + more
    shape = shape_of(lengths, most)
    whole = filled(lengths, shape)
    assert len(whole) == shape.rows > len(rows)
    assert whole.sum() == shape.tokens
    assert whole.min() >= 1 and whole.max() <= shape.longest <= most
    assert shape.longest == most or shape.longest % LENGTH == 0
    assert (whole[: len(rows)] == lengths).all()


@pytest.mark.parametrize(("rows", "mean"), [(16, 25), (32, 25), (8, 60), (128, 13), (64, 30)])
def test_typical_batches_waste_little_and_have_few_shapes(rows: int, mean: int) -> None:
    draw = np.random.default_rng(0)
    batches = [np.clip(draw.gamma(4, mean / 4, rows).astype(int), 4, 128) for _ in range(300)]
    shapes = [shape_of(lengths, 512) for lengths in batches]
    wasted = [shape.tokens / batch.sum() - 1 for shape, batch in zip(shapes, batches, strict=True)]
    assert np.mean(wasted) < 0.17
    assert max(wasted) < 0.45
    assert len(set(shapes)) <= 64


def run(made: Finetuned, spec: StageSpec, step: Step, recorded: bool) -> tuple[Any, list[Any]]:
    """Return a step's gradients by name, and what was told of each batch."""
    made.module.zero_grad(set_to_none=True)
    told: list[Any] = []
    gradients = Gradients(spec, made, losses(spec), nullcontext, torch.Generator().manual_seed(0))
    if recorded:
        gradients.graphs = Graphs(gradients, Again(), print)
    gradients(step, lambda *batch: told.append(batch))
    return {
        name: None if p.grad is None else p.grad.clone()
        for name, p in made.module.named_parameters()
    }, told


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_gradients_are_those_without_fillers(
    kind: str, surgery: str | None, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(still=True, surgery=surgery, **KINDS[kind])
    torch.manual_seed(0)
    made = load_part("trainable", spec.trainable)(spec, sources(*spec.tasks), CPU)
    made.module.train()
    found, told = run(made, spec, STEP, recorded=True)
    seen = made.tokens_seen
    expected, wanted = run(made, spec, STEP, recorded=False)
    assert made.tokens_seen == 2 * seen
    assert_same(found, expected, rtol=1e-5, atol=1e-5)
    assert any(gradient is None for gradient in expected.values()) == (
        kind in {"mean", "max", "adapters"}
    )
    for (*names, loss, values), (*others, loss2, values2) in zip(told, wanted, strict=True):
        assert [names[0], names[2]] == [others[0], others[2]]
        torch.testing.assert_close(loss, loss2, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(values, values2, rtol=1e-5, atol=1e-5)


def test_a_static_batch_holds_the_batch_that_was_put_last(make_spec: Any, sources: Any) -> None:
    spec = make_spec({"sst": {}, "para": SIAMESE})
    made = learner(spec, sources)
    for task in spec.tasks:
        examples = made.examples[task]["train"]
        batch: StaticBatch | None = None
        where = set()
        for rows in ([1, 4, 2], [2, 4, 1], [0, 1, 2]):
            plain, labels = examples.batch(torch.tensor(rows))
            shape = Shape(plain.tokens.shape[0] // 64 * 64 + 128, 2 * plain.rows + 7, 24)
            batch = batch or StaticBatch(examples, len(rows), shape)
            batch.put(np.array(rows))
            packed, tokens = batch.packed(), plain.tokens.shape[0]
            where.add(batch._given.data_ptr())
            assert packed.tokens.shape == packed.types.shape == (shape.tokens,)
            assert torch.equal(packed.tokens[:tokens], plain.tokens)
            assert torch.equal(packed.types[:tokens], plain.types)
            assert torch.equal(packed.lengths[: plain.rows], plain.lengths)
            assert torch.equal(packed.positions[:tokens], plain.positions)
            assert torch.equal(batch.labels(), labels)
            assert (packed.positions < shape.longest).all()
        assert len(where) == 1


def test_fillers_stay_within_data_that_is_shorter_than_they_are() -> None:
    rows = np.array([0])
    data = Sequences([np.array([7, 8, 9])], [1], CPU)
    labels = torch.zeros(1)
    examples: Any = SimpleNamespace(
        sequences=data, labels=labels, siamese=False, sequence_rows=lambda rows: rows
    )
    batch = StaticBatch(examples, 1, shape_of(data.lengths, 24))
    batch.put(rows)
    packed = batch.packed()
    assert packed.tokens[:3].tolist() == [7, 8, 9]
    assert set(packed.tokens[3:].tolist()) == {7, 8, 9}
    assert int(packed.lengths.sum()) == len(packed.tokens) == 64
