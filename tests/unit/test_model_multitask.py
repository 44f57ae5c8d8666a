"""A stage's model: what tasks share of the encoder, their convolutions, poolings and heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from model_batches import (
    MIXED,
    STILL,
    TINY,
    alone,
    concatenate,
    initial_backbone,
    one_by_one,
    random_batch,
    states_of,
)
from torch import Tensor, nn

from minbert.base.errors import UserError
from minbert.model.convolution import TokenConvolution
from minbert.model.multitask import MultitaskModel
from minbert.model.sharing import SharedEncoder
from minbert.model.weights import load_weights, save_weights
from minbert.plan.parameters import count
from minbert.spec.architecture import shared_parts
from minbert.spec.stage import StageSpec
from minbert.spec.task import Convolution, Head, TaskSpec

HEAD = Head(dropout=0.0)
PAIR = {"loss": "mse", "pairing": "siamese", "head": HEAD}
TASKS = {
    "sts": TaskSpec(**PAIR, pooling="mean", features=("u", "v", "|u-v|")),
    "para": TaskSpec(loss="binary_cross_entropy", pairing="cross", head=Head(depth=3, width=6)),
    "sst": TaskSpec(loss="cross_entropy", head=HEAD),
}
CONVOLVED = {
    "sst": TaskSpec(loss="cross_entropy", convolution=Convolution(), head=HEAD),
    "sts": TaskSpec(
        **PAIR,
        features=("u", "v"),
        pooling="max",
        convolution=Convolution(kernel=5, residual=True),
    ),
    "para": TaskSpec(loss="binary_cross_entropy", pairing="cross", head=HEAD),
}
LENGTHS = (3, 4, 2, 5)


def model(tasks: dict[str, TaskSpec] = TASKS, seed: int = 0, **changes: Any) -> MultitaskModel:
    torch.manual_seed(seed)
    return MultitaskModel(TINY, StageSpec(tasks=tasks, dropout=STILL, **changes))


def test_tasks_follow_the_registry_and_have_their_logits() -> None:
    made = model()
    assert list(made.heads) == ["sst", "para", "sts"]
    shapes = {task: tuple(alone(made, task, random_batch(LENGTHS)).shape) for task in TASKS}
    assert shapes == {"sst": (4, 5), "para": (4, 1), "sts": (2, 1)}


def test_siamese_pairs_row_i_with_row_b_plus_i() -> None:
    made, batch = model().eval(), random_batch(LENGTHS)
    rows = one_by_one(batch)
    for n in range(2):
        pair = [rows[n], rows[2 + n]]
        torch.testing.assert_close(
            alone(made, "sts", concatenate(pair))[0], alone(made, "sts", batch)[n]
        )
        swapped = alone(made, "sts", concatenate(pair[::-1]))[0]
        assert not torch.allclose(swapped, alone(made, "sts", batch)[n])


def test_logits_are_the_heads_of_what_is_pooled() -> None:
    made, batch = model().eval(), random_batch(LENGTHS)
    pooled = alone(made.pooled, "sts", batch)
    assert pooled.shape == (4, TINY.hidden)
    assert torch.equal(made.from_pooled("sts", pooled), alone(made, "sts", batch))
    torch.testing.assert_close(pooled[0], states_of(made.encoder, "sts", batch)[:3].mean(0))
    first = made.encoder.pooler("sst")(states_of(made.encoder, "sst", batch)[batch.first])
    assert torch.equal(alone(made.pooled, "sst", batch), first)


def test_a_task_pools_its_convolved_tokens() -> None:
    made, batch = model(CONVOLVED).eval(), random_batch(LENGTHS)
    hidden = states_of(made.encoder, "sst", batch)
    assert set(made.convolutions) == {"sst", "sts"}
    first = made.convolutions["sst"](hidden, batch)[batch.first]
    assert torch.equal(alone(made.pooled, "sst", batch), made.encoder.pooler("sst")(first))
    tokens = made.convolutions["sts"](hidden, batch)
    largest = torch.stack([part.amax(0) for part in tokens.split(list(LENGTHS))])
    assert torch.equal(alone(made.pooled, "sts", batch), largest)
    without = made.encoder.pooler("para")(hidden[batch.first])
    assert torch.equal(alone(made.pooled, "para", batch), without)


@pytest.mark.parametrize("shared", ["all", "none", 0, 1, 0.5])
@pytest.mark.parametrize("tasks", [TASKS, CONVOLVED], ids=["plain", "convolved"])
def test_every_parameter_is_shared_or_one_tasks_and_counted(
    shared: Any, tasks: dict[str, TaskSpec]
) -> None:
    made = model(tasks, shared_layers=shared)
    own = {task: made.own_parameters(task) for task in TASKS}
    groups = [made.encoder.shared_parameters(), *own.values()]
    assert sum(map(len, groups)) == len(list(made.parameters()))
    assert {id(p) for g in groups for p in g} == {id(p) for p in made.parameters()}
    assert (len(groups[0]) == 0) == (shared == "none")
    for task, parameters in own.items():
        theirs = [made.heads[task], *(m for t, m in made.convolutions.items() if t == task)]
        assert {id(p) for m in theirs for p in m.parameters()} <= {id(p) for p in parameters}
    counted = count(made.spec, TINY)
    assert counted["total"] == counted["trainable"] == sum(p.numel() for p in made.parameters())


def test_heads_start_as_torchs_linear_layers_and_follow_the_seed() -> None:
    wide = TASKS | {"para": TASKS["para"].model_copy(update={"head": Head(depth=3, width=300)})}
    name = "heads.para.linears.1.weight"
    weight, again, other = (model(wide, seed).get_parameter(name).detach() for seed in (1, 1, 2))
    # Uniform within 1 / sqrt(300), as in the course's starter code: not BERT's 0.02.
    assert float(weight.std()) == pytest.approx((3 * 300) ** -0.5, rel=0.02)
    assert float(weight.abs().max()) <= 300**-0.5
    assert torch.equal(weight, again) and not torch.equal(weight, other)


def test_saved_and_loaded_to_the_bit_by_stable_names(tmp_path: Path) -> None:
    made, other = (model(shared_layers=2, seed=seed) for seed in (0, 1))
    save_weights(tmp_path / "model.safetensors", made.state_dict())
    other.load_state_dict(load_weights(tmp_path / "model.safetensors"))
    for task in TASKS:
        batch = random_batch(LENGTHS)
        assert torch.equal(alone(made.eval(), task, batch), alone(other.eval(), task, batch))
    assert {
        "encoder.shared.embeddings.word.weight",
        "encoder.shared.embeddings.token_type.weight",
        "encoder.shared.layers.1.attention.qkv.bias",
        "encoder.own.sst.layers.2.attention.output.weight",
        "encoder.own.para.layers.2.feed_forward.inner.weight",
        "encoder.own.para.layers.2.feed_forward.norm.bias",
        "encoder.own.sst.pooler.dense.weight",
        "heads.para.linears.2.bias",
    } <= made.state_dict().keys()


def layer(kernel: int = 3, residual: bool = False) -> TokenConvolution:
    torch.manual_seed(5)
    return TokenConvolution(TINY.hidden, Convolution(kernel=kernel, residual=residual))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kernel", [1, 3, 5, 15])
def test_a_convolution_is_torchs_of_each_sequence_alone(kernel: int, residual: bool) -> None:
    ours = layer(kernel, residual)
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
BATCHES = {task: random_batch((3, 7, 5), seed=n) for n, task in enumerate(TASKS)}


def encoder(
    shared: int | None, tasks: tuple[str, ...] = tuple(TASKS), end: str = "bottom"
) -> SharedEncoder:
    parts = shared_parts("none" if shared is None else shared, end, TINY.layers)
    made = SharedEncoder(TINY, tasks, parts, STILL)
    made.load_backbone(BACKBONE)
    return made


def loss(made: SharedEncoder, task: str) -> Tensor:
    hidden = states_of(made, task, BATCHES[task])
    pooled: Tensor = made.pooler(task)(hidden[BATCHES[task].first])
    return pooled.pow(3).sum() + hidden.pow(3).mean()


@pytest.mark.parametrize(
    ("shared", "end"), [*((n, "bottom") for n in (None, 0, 1, 2, 3)), (1, "top"), (2, "top")]
)
def test_gradients_are_summed_in_what_is_shared_and_apart_elsewhere(
    shared: int | None, end: str
) -> None:
    made, apart = encoder(shared, end=end), {}
    for task in TASKS:
        loss(made, task).backward()
        alone = encoder(TINY.layers, (task,))
        assert alone.shared_parameters() == [], "of one task, nothing is shared"
        loss(alone, task).backward()
        apart[task] = {name: p.grad for name, p in alone.shared.named_parameters()}
    names = {name for name, _ in made.shared.named_parameters()}
    for name, parameter in made.shared.named_parameters():
        torch.testing.assert_close(parameter.grad, sum(apart[task][name] for task in TASKS))
    for task in TASKS:
        own = dict(made.own[task].named_parameters())
        assert own.keys() == BACKBONE.keys() - names
        for name, parameter in own.items():
            assert torch.equal(parameter.grad, apart[task][name]), name
    layers = {n.split(".")[1] for n in names if n.startswith("layers.")}
    first = TINY.layers - (shared or 0) if end == "top" else 0
    assert layers == {str(first + n) for n in range(shared or 0)}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"pooler.dense.bias": None}, r"'pooler.dense.bias': found shape none, expected \[12\]"),
        ({"layers.3.qkv.bias": torch.zeros(36)}, r"qkv.bias': found shape \[36\], expected none"),
        ({"embeddings.word.weight": torch.zeros(51, 12)}, r"word.weight': found shape \[51, 12\]"),
    ],
)
def test_a_backbone_that_does_not_fit(change: dict[str, Tensor | None], match: str) -> None:
    state = {name: tensor for name, tensor in (BACKBONE | change).items() if tensor is not None}
    with pytest.raises(UserError, match=match):
        encoder(1).load_backbone(state)


def test_no_layers_at_the_top_are_refused() -> None:
    with pytest.raises(UserError, match="shared_layers is 0, none of 3 layers, with 'shared_end"):
        encoder(0, end="top")
