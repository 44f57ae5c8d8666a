"""A stage's model: what tasks share of the encoder, their convolutions, poolings and heads."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from model_batches import (
    MIXED,
    STILL,
    TINY,
    alone,
    initial_backbone,
    one_by_one,
    random_batch,
    states_of,
)
from torch import Tensor, nn

from minbert.model.convolution import TokenConvolution
from minbert.model.encoder import ByTask, SharedEncoder
from minbert.model.multitask import MultitaskModel
from minbert.model.packed import join
from minbert.spec.architecture import shared_parts
from minbert.spec.stage import StageSpec
from minbert.spec.task import Convolution

PAIR = {"loss": "mse", "pairing": "siamese", "head": {"dropout": 0.0}}
TASKS: dict[str, Any] = {
    "sts": {**PAIR, "pooling": "mean", "features": ("u", "v", "|u-v|")},
    "para": {"loss": "binary_cross_entropy", "pairing": "cross", "head": {"depth": 3, "width": 6}},
    "sst": {"loss": "cross_entropy", "convolution": {}},
    "cfimdb": {**PAIR, "loss": "cross_entropy", "pairing": None, "pooling": "max"},
}
TASKS["cfimdb"]["convolution"] = {"kernel": 5, "residual": True}
LENGTHS = (3, 4, 2, 5)


def model(seed: int = 0, **changes: Any) -> MultitaskModel:
    torch.manual_seed(seed)
    spec = StageSpec.model_validate({"tasks": TASKS, "dropout": STILL, **changes})
    return MultitaskModel(TINY, spec)


def test_siamese_pairs_row_i_with_row_b_plus_i() -> None:
    made, batch = model().eval(), random_batch(LENGTHS)
    rows = one_by_one(batch)
    for n in range(2):
        found = alone(made, "sts", join([rows[n], rows[2 + n]]))[0]
        torch.testing.assert_close(found, alone(made, "sts", batch)[n])


def test_logits_are_the_heads_of_what_is_pooled_of_what_is_convolved() -> None:
    made, batch = model().eval(), random_batch(LENGTHS)
    hidden, pooler = states_of(made.encoder, "sst", batch), made.encoder.pooler("sst")
    assert set(made.convolutions) == {"sst", "cfimdb"}
    first = made.convolutions["sst"](hidden, batch)[batch.first]
    tokens = made.convolutions["cfimdb"](hidden, batch).split(list(LENGTHS))
    pooled = {
        "sst": pooler(first),
        "para": pooler(hidden[batch.first]),
        "sts": torch.stack([part.mean(0) for part in hidden.split(list(LENGTHS))]),
        "cfimdb": torch.stack([part.amax(0) for part in tokens]),
    }
    for task, expected in pooled.items():
        found = alone(made.pooled, task, batch)
        torch.testing.assert_close(found, expected)
        assert torch.equal(made.from_pooled(task, found), alone(made, task, batch))


@pytest.mark.parametrize("shared", ["all", "none", 0, 1, 0.5])
def test_every_parameter_is_shared_or_one_tasks(shared: Any) -> None:
    made = model(shared_layers=shared)
    groups = [made.trained_parameters(), *map(made.trained_parameters, TASKS)]
    names = [name for group in groups for name in group]
    assert sorted(names) == sorted(name for name, _ in made.named_parameters())
    assert (len(groups[0]) == 0) == (shared == "none")


def test_names_in_the_file_of_weights_are_stable() -> None:
    """Files of earlier runs have them."""
    assert {
        "encoder.shared.embeddings.token_type.weight",
        "encoder.shared.layers.1.attention.qkv.bias",
        "encoder.own.para.layers.2.feed_forward.inner.weight",
        "encoder.own.sst.pooler.dense.weight",
        "heads.para.linears.2.bias",
    } <= model(shared_layers=2).state_dict().keys()


def test_tasks_may_be_called_what_torch_has() -> None:
    made = ByTask({name: nn.Linear(2, 1, bias=False) for name in ("type", "train")})
    copied = copy.deepcopy(made).eval()
    copied.load_state_dict(made.state_dict())
    assert {n: module.training for n, module in copied.items()} == {"type": False, "train": False}


@pytest.mark.parametrize(("kernel", "residual"), [(1, False), (3, True), (15, False)])
def test_a_convolution_is_torchs_of_each_sequence_alone(kernel: int, residual: bool) -> None:
    torch.manual_seed(5)
    ours = TokenConvolution(TINY.hidden, Convolution(kernel=kernel, residual=residual))
    torch.manual_seed(5)
    theirs = nn.Conv1d(TINY.hidden, TINY.hidden, kernel, padding=kernel // 2)
    assert torch.equal(ours.convolution.weight, theirs.weight), "it starts as torch's"
    hidden = torch.randn(sum(MIXED), TINY.hidden, requires_grad=True)
    found = ours(hidden, random_batch())
    alone = [theirs(part.T).T.relu() for part in hidden.split(list(MIXED))]
    expected = torch.cat(alone) + (hidden if residual else 0)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)
    upstream = torch.randn(found.shape)
    gradients = torch.autograd.grad(found, [hidden, *ours.parameters()], upstream)
    wanted = torch.autograd.grad(expected, [hidden, *theirs.parameters()], upstream)
    torch.testing.assert_close(gradients, wanted, atol=1e-5, rtol=1e-5)


BACKBONE = {name: tensor * 10 for name, tensor in initial_backbone(TINY, seed=4).items()}
BATCHES = {task: random_batch((3, 7, 5), seed=n) for n, task in enumerate(("sts", "para", "sst"))}


def encoder(
    shared: Any, tasks: tuple[str, ...] = (*BATCHES,), end: str = "bottom"
) -> SharedEncoder:
    made = SharedEncoder(TINY, tasks, shared_parts(shared, end, TINY.layers), STILL)
    made.load_backbone(BACKBONE)
    return made


def loss(made: SharedEncoder, task: str) -> Tensor:
    hidden = states_of(made, task, BATCHES[task])
    pooled: Tensor = made.pooler(task)(hidden[BATCHES[task].first])
    return pooled.pow(3).sum() + hidden.pow(3).mean()


@pytest.mark.parametrize(
    ("shared", "end", "layers"),
    [
        ("none", "bottom", set()),
        (0, "bottom", set()),
        (2, "bottom", {"0", "1"}),
        ("all", "bottom", {"0", "1", "2"}),
        (2, "top", {"1", "2"}),
    ],
)
def test_gradients_are_summed_in_what_is_shared_and_apart_elsewhere(
    shared: int | str, end: str, layers: set[str]
) -> None:
    made, apart = encoder(shared, end=end), {}
    for task in BATCHES:
        loss(made, task).backward()
        alone = encoder("all", (task,))
        loss(alone, task).backward()
        apart[task] = {name: p.grad for name, p in alone.shared.named_parameters()}
    names = {name for name, _ in made.shared.named_parameters()}
    for name, parameter in made.shared.named_parameters():
        torch.testing.assert_close(parameter.grad, sum(apart[task][name] for task in BATCHES))
    for task in BATCHES:
        own = dict(made.own[task].named_parameters())
        assert own.keys() == BACKBONE.keys() - names
        for name, parameter in own.items():
            assert torch.equal(parameter.grad, apart[task][name]), name
    assert {n.split(".")[1] for n in names if n.startswith("layers.")} == layers
