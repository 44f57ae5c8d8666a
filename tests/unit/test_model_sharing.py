from __future__ import annotations

import pytest
import torch
from model_batches import STILL, TINY, initial_backbone, random_batch
from torch import Tensor, nn

from minbert.base.errors import UserError
from minbert.model.sharing import SharedEncoder
from minbert.spec.architecture import shared_parts

TASKS = ("sst", "para", "sts")
BACKBONE = {name: tensor * 10 for name, tensor in initial_backbone(TINY, seed=4).items()}
BATCHES = {task: random_batch((3, 7, 5), seed=n) for n, task in enumerate(TASKS)}


def encoder(
    shared: int | None, tasks: tuple[str, ...] = TASKS, end: str = "bottom"
) -> SharedEncoder:
    parts = shared_parts("none" if shared is None else shared, end, TINY.layers)
    model = SharedEncoder(TINY, tasks, parts, STILL)
    model.load_backbone(BACKBONE)
    return model


def loss(model: SharedEncoder, task: str) -> Tensor:
    batch = BATCHES[task]
    hidden = model(task, batch)
    pooled: Tensor = model.pooler(task)(hidden[batch.first])
    return pooled.pow(3).sum() + hidden.pow(3).mean()


def count(parameters: list[nn.Parameter]) -> int:
    return sum(p.numel() for p in parameters)


def independent_gradients(task: str) -> dict[str, Tensor]:
    """Return the gradients of an encoder that only `task` uses, by backbone name."""
    model = encoder(TINY.layers, (task,))
    loss(model, task).backward()
    return {n.removeprefix("shared."): gradient(p) for n, p in named(model)}


def gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def named(model: SharedEncoder) -> list[tuple[str, nn.Parameter]]:
    return list(model.named_parameters())


def test_nothing_shared_equals_three_independent_encoders() -> None:
    model = encoder(None)
    torch.stack([loss(model, task) for task in TASKS]).sum().backward()
    for task in TASKS:
        alone = independent_gradients(task)
        own = dict(model.own[task].named_parameters())
        assert own.keys() == alone.keys() == BACKBONE.keys()
        for name, parameter in own.items():
            assert torch.equal(gradient(parameter), alone[name]), name


def test_all_shared_equals_one_encoder_for_all_tasks() -> None:
    model = encoder(TINY.layers)
    assert dict(model.shared.named_parameters()).keys() == BACKBONE.keys()
    assert model.pooler("sst") is model.pooler("sts")
    for task in TASKS:
        model.zero_grad()
        loss(model, task).backward()
        alone = independent_gradients(task)
        for name, parameter in model.shared.named_parameters():
            assert torch.equal(gradient(parameter), alone[name]), name


@pytest.mark.parametrize("shared", [0, 1, 2])
def test_hybrid_sums_gradients_below_and_keeps_tasks_apart_above(shared: int) -> None:
    model = encoder(shared)
    loss(model, "para").backward()
    alone = independent_gradients("para")
    assert all(p.grad is None for t in ("sst", "sts") for p in model.own_parameters(t))
    for task in ("sst", "sts"):
        loss(model, task).backward()
    for name, parameter in model.own["para"].named_parameters():
        torch.testing.assert_close(gradient(parameter), alone[name])
    summed = [independent_gradients(task) for task in TASKS]
    for name, parameter in model.shared.named_parameters():
        torch.testing.assert_close(gradient(parameter), sum(s[name] for s in summed))
    assert model.pooler("sst") is not model.pooler("sts")
    names = {f"layers.{n}" for n in range(shared)} | {"embeddings"}
    assert {
        ".".join(n.split(".")[: 1 + n.startswith("layers")])
        for n, _ in model.shared.named_parameters()
    } == names


@pytest.mark.parametrize("shared", [1, 2])
def test_sharing_at_the_top_sums_gradients_there(shared: int) -> None:
    model = encoder(shared, end="top")
    for task in TASKS:
        loss(model, task).backward()
    apart = {task: independent_gradients(task) for task in TASKS}
    for task in TASKS:
        for name, parameter in model.own[task].named_parameters():
            torch.testing.assert_close(gradient(parameter), apart[task][name])
    for name, parameter in model.shared.named_parameters():
        torch.testing.assert_close(gradient(parameter), sum(s[name] for s in apart.values()))
    layers = {str(n) for n in range(TINY.layers - shared, TINY.layers)}
    assert [name for name, _ in model.shared.named_children()] == ["layers", "pooler"]
    assert set(model.shared.layers) == layers
    assert model.pooler("sst") is model.pooler("sts")


def test_no_layers_at_the_top_are_refused() -> None:
    with pytest.raises(UserError, match="shared_layers is 0, none of 3 layers, with 'shared_end"):
        encoder(0, end="top")


@pytest.mark.parametrize(
    ("shared", "end"),
    [*((n, "bottom") for n in (None, 0, 1, 2, 3)), *((n, "top") for n in (1, 2, 3))],
)
def test_same_output_whatever_is_shared(shared: int | None, end: str) -> None:
    model = encoder(shared, end=end).eval()
    expected = encoder(TINY.layers, ("sst",)).eval()("sst", BATCHES["sst"])
    for task in TASKS:
        assert torch.equal(model(task, BATCHES["sst"]), expected)


@pytest.mark.parametrize("shared", [None, 0, 1, 3])
def test_parameters_are_shared_or_one_tasks_and_never_both(shared: int | None) -> None:
    model = encoder(shared)
    groups = [model.shared_parameters(), *(model.own_parameters(t) for t in TASKS)]
    everything = [p for group in groups for p in group]
    assert {id(p) for p in everything} == {id(p) for p in model.parameters()}
    assert len(everything) == len({id(p) for p in everything})
    one = sum(t.numel() for t in BACKBONE.values())
    layer = sum(t.numel() for n, t in BACKBONE.items() if n.startswith("layers.0."))
    rest = sum(t.numel() for n, t in BACKBONE.items() if n.startswith("embeddings."))
    common = {None: 0, 0: rest, 1: rest + layer, 3: one}[shared]
    assert count(groups[0]) == common
    assert count(everything) == common + 3 * (one - common)


@pytest.mark.parametrize("shared", [None, 1, 3])
def test_one_task_shares_nothing(shared: int | None) -> None:
    model = encoder(shared, ("sst",))
    assert model.shared_parameters() == []
    assert count(model.own_parameters("sst")) == sum(t.numel() for t in BACKBONE.values())


def test_copies_start_equal_and_are_copies() -> None:
    model = encoder(1)
    first = model.own["sst"].get_parameter("layers.2.attention.qkv.weight")
    second = model.own["sts"].get_parameter("layers.2.attention.qkv.weight")
    assert torch.equal(first, second)
    with torch.no_grad():
        first += 1
    assert not torch.equal(first, second)
    assert torch.equal(second, BACKBONE["layers.2.attention.qkv.weight"])


def test_backbone_without_a_tensor() -> None:
    state = {n: t for n, t in BACKBONE.items() if n != "pooler.dense.bias"}
    with pytest.raises(UserError, match=r"no tensor 'pooler.dense.bias'.*\[12\]"):
        encoder(1).load_backbone(state)


def test_backbone_with_a_tensor_too_many() -> None:
    state = BACKBONE | {"layers.3.attention.qkv.bias": torch.zeros(36)}
    with pytest.raises(UserError, match=r"unexpected tensor 'layers.3.attention.qkv.bias'.*\[36\]"):
        encoder(1).load_backbone(state)


def test_backbone_of_another_shape() -> None:
    state = BACKBONE | {"embeddings.word.weight": torch.zeros(51, 12)}
    with pytest.raises(UserError, match=r"'embeddings.word.weight' .*\[51, 12\].*\[50, 12\]"):
        encoder(None).load_backbone(state)
