"""The last layer for first tokens alone: the same numbers as for all of them."""

from __future__ import annotations

import pytest
import torch
from model_batches import MIXED, STILL, TINY, random_batch

from minbert.model import attention
from minbert.model import encoder as encoder_module
from minbert.model.encoder import Stack, initialise, whole_encoder
from minbert.model.multitask import MultitaskModel
from minbert.model.sharing import SharedEncoder
from minbert.spec.architecture import shared_parts
from minbert.spec.stage import StageSpec
from minbert.spec.task import Convolution, Head, TaskSpec

LENGTHS = [MIXED, (4, 4, 4), (1, 1), (7,), (2, 9, 2, 30, 2, 9, 40)]


def encoder() -> Stack:
    torch.manual_seed(0)
    made = whole_encoder(TINY, STILL)
    initialise(made)
    return made


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("cost", [1, 1e9])
def test_first_tokens_come_out_as_among_all(
    lengths: tuple[int, ...], cost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention.make_blocks, "__defaults__", (1, cost, None))
    model, batch = encoder(), random_batch(lengths)
    expected = model(batch)[batch.first]
    found = model(batch, first_only=True)
    assert found.shape == (len(lengths), TINY.hidden)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)

    wanted = torch.autograd.grad(expected.square().sum(), list(model.layers.parameters()))
    gradients = torch.autograd.grad(found.square().sum(), list(model.layers.parameters()))
    for ours, theirs in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_on_an_accelerator_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """There rows are padded to the longest."""
    monkeypatch.setattr(encoder_module, "attend", attention._attend_padded)
    model, batch = encoder(), random_batch()
    torch.testing.assert_close(model(batch, first_only=True), model(batch)[batch.first])


@pytest.mark.parametrize("shared", ["none", 0, 2, 3])
def test_whatever_is_shared(shared: int | str) -> None:
    torch.manual_seed(1)
    model = SharedEncoder(TINY, ["sst", "sts"], shared_parts(shared, "bottom", TINY.layers), STILL)
    batch = random_batch()
    torch.testing.assert_close(
        model("sts", batch, first_only=True), model("sts", batch)[batch.first]
    )


@pytest.mark.parametrize(
    ("task", "positions"),
    [
        (TaskSpec(loss="cross_entropy"), len(MIXED)),
        (TaskSpec(loss="cross_entropy", pooling="mean"), sum(MIXED)),
        (TaskSpec(loss="cross_entropy", convolution=Convolution()), sum(MIXED)),
    ],
    ids=["cls", "mean", "a convolution below"],
)
def test_a_model_computes_what_its_pooling_reads(
    task: TaskSpec, positions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task.model_copy(update={"head": Head(dropout=0.0)})
    model = MultitaskModel(TINY, StageSpec(tasks={"sst": task}, dropout=STILL))
    rows: list[int] = []
    last = model.encoder.shared.layers["2"]
    last.register_forward_hook(lambda _, __, output: rows.append(len(output)))
    batch = random_batch()
    model("sst", batch)
    assert rows == [positions]
