"""Heads: a perceptron, a cosine of two embeddings, and where they start."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from minbert.model.heads.cosine import CosineHead
from minbert.model.heads.mlp import MLPHead
from minbert.model.multitask import FEATURES
from minbert.spec.task import Head
from minbert.train.losses import task_loss

BARE = Head(name="cosine", depth=0)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def deep(depth: int = 1, dropout: float = 0.0, width: int = 7, inputs: int = 12) -> CosineHead:
    torch.manual_seed(0)
    head = Head(name="cosine", depth=depth, width=width, dropout=dropout)
    return CosineHead(inputs, 1, head)


def test_pair_features() -> None:
    u, v = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 5.0]])
    found = {name: make(u, v).tolist() for name, make in FEATURES.items()}
    assert found == {"u": [[1, -2]], "v": [[3, 5]], "u*v": [[3, -10]], "|u-v|": [[2, 7]]}


@pytest.mark.parametrize("depth", [1, 4])
def test_a_perceptron_is_linear_maps_with_relu_between(depth: int) -> None:
    head = MLPHead(6, 3, Head(depth=depth, width=7, dropout=0.5)).eval()
    sizes = [tuple(p.shape) for n, p in head.named_parameters() if n.endswith("weight")]
    assert sizes == list(zip([*[7] * (depth - 1), 3], [6, *[7] * (depth - 1)], strict=True))
    expected = embedding = torch.randn(5, 6)
    for n, linear in enumerate(head.linears):
        expected = linear(expected.relu() if n else expected)
    torch.testing.assert_close(head(embedding), expected)
    before = {name: tensor.clone() for name, tensor in head.state_dict().items()}
    head.start_at(torch.tensor([1.0, -2.0, 0.5]))
    changed = [n for n, t in head.state_dict().items() if not torch.equal(t, before[n])]
    assert changed == [f"linears.{depth - 1}.bias"]
    assert head.get_parameter(changed[0]).tolist() == [1.0, -2.0, 0.5]


@pytest.mark.parametrize(
    ("head", "layers", "inputs"),
    [
        (MLPHead(1, 1, Head(depth=2, width=1, dropout=0.25)), 2, 1),
        (deep(1, dropout=0.25, width=1, inputs=2), 2, 2),  # one layer, of both sides
    ],
    ids=["an MLP", "a cosine"],
)
def test_dropout_is_before_each_layer_in_training_only(
    head: nn.Module, layers: int, inputs: int
) -> None:
    torch.manual_seed(0)
    for name, parameter in head.named_parameters():  # each layer copies its input
        nn.init.constant_(parameter, float(name.endswith("weight")))
    ones = torch.ones(4000, inputs)
    lost = float((head(ones) == 0).float().mean())
    assert lost == pytest.approx(1 - 0.75**layers, abs=0.03)
    assert torch.equal(head.eval()(ones), torch.ones(4000, 1))


def test_cosine_by_hand() -> None:
    u = torch.tensor([[3.0, 4.0], [1.0, 2.0], [2.0, 0.0], [0.0, -5.0]])
    v = torch.tensor([[4.0, 3.0], [-1.0, -2.0], [0.0, 9.0], [2.0, -2.0]])
    head = CosineHead(4, 1, BARE.model_copy(update={"dropout": 0.9})).train()
    found = head(torch.cat([u, v], dim=1))
    assert found.shape == (4, 1)
    assert found.flatten().tolist() == pytest.approx([24 / 25, -1.0, 0.0, 2**-0.5], abs=1e-6)
    # Without layers there is nothing to train and nothing to drop.
    assert list(head.parameters()) == [] and list(head.state_dict()) == ["threshold"]


@pytest.mark.parametrize("depth", [1, 3])
def test_both_sides_go_through_the_same_layers_with_relu_after_each(depth: int) -> None:
    head = deep(depth)
    given = sides = [draw(5, 6), draw(5, 6, seed=1)]
    for linear in head.linears:
        sides = [linear(side).clamp(min=0) for side in sides]
    a, b = sides
    expected = (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))
    found = head(torch.cat(given, dim=1)).flatten()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert found.unique().numel() > 1


def test_a_threshold_leaves_its_share_of_cosines_above_it() -> None:
    head, embeddings = CosineHead(12, 1, BARE), draw(40, 12)
    cosines, loss = head(embeddings), task_loss("cosine_embedding", head)
    before = loss.loss(cosines, torch.ones(40))
    head.part_at(cosines, 0.3)
    assert torch.equal(head(embeddings), cosines)
    assert loss.prediction(cosines).mean().item() == pytest.approx(0.3)
    assert torch.equal(loss.scores(cosines)[:, 0] > 0.5, loss.prediction(cosines) > 0)
    assert loss.scores(torch.tensor([[-1.0], [1.0]])).min() >= 0
    assert loss.loss(cosines, torch.ones(40)) == before, "what it is trained on does not move"
