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


def test_copies_start_equal_and_are_copies() -> None:
    model = encoder(1)
    first = model.own["sst"].get_parameter("layers.2.attention.qkv.weight")
    second = model.own["sts"].get_parameter("layers.2.attention.qkv.weight")
    assert torch.equal(first, second)
    with torch.no_grad():
        first += 1
    assert not torch.equal(first, second)
    assert torch.equal(second, BACKBONE["layers.2.attention.qkv.weight"])


@pytest.mark.parametrize(
    ("shared", "end"), [*((n, "bottom") for n in (None, 0, 1, 2, 3)), (1, "top"), (2, "top")]
)
def test_gradients_are_summed_in_what_is_shared_and_apart_elsewhere(
    shared: int | None, end: str
) -> None:
    model, apart = encoder(shared, end=end), {}
    for task in TASKS:
        loss(model, task).backward()
        alone = encoder(TINY.layers, (task,))
        assert alone.shared_parameters() == [], "of one task, nothing is shared"
        loss(alone, task).backward()
        apart[task] = {name: p.grad for name, p in alone.shared.named_parameters()}
    names = {name for name, _ in model.shared.named_parameters()}
    for name, parameter in model.shared.named_parameters():
        torch.testing.assert_close(parameter.grad, sum(apart[task][name] for task in TASKS))
    for task in TASKS:
        own = dict(model.own[task].named_parameters())
        assert own.keys() == BACKBONE.keys() - names
        for name, parameter in own.items():
            assert torch.equal(parameter.grad, apart[task][name]), name
    layers = {n.split(".")[1] for n in names if n.startswith("layers.")}
    first = TINY.layers - (shared or 0) if end == "top" else 0
    assert layers == {str(first + n) for n in range(shared or 0)}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"pooler.dense.bias": None}, r"no tensor 'pooler.dense.bias'.*\[12\]"),
        (
            {"layers.3.attention.qkv.bias": torch.zeros(36)},
            r"unexpected tensor 'layers.3.attention.qkv.bias'.*\[36\]",
        ),
        ({"embeddings.word.weight": torch.zeros(51, 12)}, r"'embeddings.word.weight' .*\[51, 12\]"),
    ],
)
def test_a_backbone_that_does_not_fit(change: dict[str, Tensor | None], match: str) -> None:
    state = {name: tensor for name, tensor in (BACKBONE | change).items() if tensor is not None}
    with pytest.raises(UserError, match=match):
        encoder(1).load_backbone(state)


def test_no_layers_at_the_top_are_refused() -> None:
    with pytest.raises(UserError, match="shared_layers is 0, none of 3 layers, with 'shared_end"):
        encoder(0, end="top")
