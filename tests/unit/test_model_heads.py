"""Heads: a cosine of two embeddings, and where heads start."""

from __future__ import annotations

import math

import pytest
import torch
from model_batches import STILL, TINY, random_batch
from torch import Tensor

from minbert.model.heads.cosine import CosineHead
from minbert.model.heads.mlp import MLPHead
from minbert.model.multitask import MultitaskModel
from minbert.spec.parts import PARTS, load_part
from minbert.spec.stage import StageSpec
from minbert.spec.task import Head, TaskSpec
from minbert.train.losses import task_loss
from minbert.train.losses.cosine_embedding import CosineEmbedding

BARE = Head(name="cosine", depth=0)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def deep(depth: int = 1, dropout: float = 0.0, width: int = 7) -> CosineHead:
    """Return a cosine head for two embeddings of 6."""
    torch.manual_seed(0)
    return CosineHead(12, 1, Head(name="cosine", depth=depth, width=width, dropout=dropout))


def test_cosine_by_hand() -> None:
    u = torch.tensor([[3.0, 4.0], [1.0, 2.0], [2.0, 0.0], [0.0, -5.0]])
    v = torch.tensor([[4.0, 3.0], [-1.0, -2.0], [0.0, 9.0], [2.0, -2.0]])
    found = CosineHead(4, 1, BARE)(torch.cat([u, v], dim=1))
    assert found.shape == (4, 1)
    assert found.flatten().tolist() == pytest.approx([24 / 25, -1.0, 0.0, 2**-0.5], abs=1e-6)


def test_without_layers_there_is_nothing_to_train_and_nothing_to_drop() -> None:
    head = CosineHead(12, 1, BARE.model_copy(update={"dropout": 0.9})).train()
    assert list(head.parameters()) == [] and list(head.state_dict()) == ["threshold"]
    embedding = draw(50, 12)
    assert torch.equal(head(embedding), head(embedding))
    assert torch.equal(head(embedding), head.eval()(embedding))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_both_sides_go_through_the_same_layers_with_relu_after_each(depth: int) -> None:
    head = deep(depth)
    sizes = [tuple(p.shape) for p in head.parameters()]
    assert sizes == [(7, 6), (7,), *[(7, 7), (7,)] * (depth - 1)]
    u, v = draw(5, 6), draw(5, 6, seed=1)
    sides = []
    for embedding in (u, v):
        side = embedding
        for linear in head.linears:
            side = linear(side).clamp(min=0)
        sides.append(side)
    expected = [
        float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
        for a, b in zip(*(side.detach().double() for side in sides), strict=True)
    ]
    found = head(torch.cat([u, v], dim=1)).detach().flatten()
    assert found.tolist() == pytest.approx(expected, abs=1e-5)
    assert (found >= 0).all(), "no entry is negative after ReLU, so no cosine is"
    assert found.unique().numel() > 1


def test_dropout_is_before_each_layer_in_training_only() -> None:
    same = draw(400, 6).repeat(1, 2)
    for depth in (1, 2):
        # Wide: among 7 units all may be off at once, and the cosine of noughts is 0.
        head = deep(depth, dropout=0.5, width=64)
        torch.testing.assert_close(head.eval()(same), torch.ones(400, 1))
        torch.manual_seed(0)
        found = head.train()(same)
        assert float(found.detach().mean()) < 0.95, "the two sides drop entries of their own"
    # A layer that copies: an entry is lost with the probability of one dropout, not of two.
    copy = CosineHead(2, 1, Head(name="cosine", depth=1, width=1, dropout=0.25))
    copy.load_state_dict(
        {"linears.0.weight": torch.ones(1, 1), "linears.0.bias": torch.zeros(1)}, strict=False
    )
    lost = float((copy(torch.ones(4000, 2)) == 0).float().mean())
    assert lost == pytest.approx(1 - 0.75**2, abs=0.03)
    torch.nn.init.ones_(copy.get_parameter("linears.0.bias"))
    assert torch.equal(copy(torch.ones(4000, 2)), torch.ones(4000, 1)), "its bias is never dropped"


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_the_cosine_of_a_vector_of_zeros_is_nought_with_a_finite_gradient(
    which: tuple[int, ...],
) -> None:
    sides = [draw(2, 6), draw(2, 6, seed=1)]
    for side in which:
        sides[side] = torch.zeros(2, 6)
    embedding = torch.cat(sides, dim=1).requires_grad_()
    found = CosineHead(12, 1, BARE)(embedding)
    assert found.tolist() == [[0.0], [0.0]]
    found.sum().backward()
    assert embedding.grad is not None and embedding.grad.isfinite().all()


def test_start_at_sets_the_last_bias_of_an_mlp_and_nothing_of_a_cosine() -> None:
    mlp = MLPHead(4, 3, Head(depth=2, width=5))
    before = {name: tensor.clone() for name, tensor in mlp.state_dict().items()}
    mlp.start_at(torch.tensor([1.0, -2.0, 0.5]))
    assert mlp.linears[-1].bias.tolist() == [1.0, -2.0, 0.5]
    assert mlp.linears[-1].bias.requires_grad
    for name, tensor in mlp.state_dict().items():
        assert torch.equal(tensor, before[name]) == (name != "linears.1.bias"), name
    cosine = deep(2)
    before = {name: tensor.clone() for name, tensor in cosine.state_dict().items()}
    cosine.start_at(torch.tensor([0.7]))
    assert all(torch.equal(tensor, before[n]) for n, tensor in cosine.state_dict().items())


def test_a_threshold_leaves_its_share_of_cosines_above_it() -> None:
    head = CosineHead(12, 1, BARE)
    embeddings = draw(40, 12)
    cosines = head(embeddings)
    loss = task_loss("cosine_embedding", head)
    head.part_at(cosines, 0.3)
    assert torch.equal(head(embeddings), cosines)
    assert loss.prediction(cosines).mean().item() == pytest.approx(0.3)
    assert torch.equal(loss.scores(cosines)[:, 0] > 0.5, loss.prediction(cosines) > 0)
    assert loss.scores(torch.tensor([[-1.0], [1.0]])).min() >= 0
    # What it is trained on does not move.
    labels = torch.ones(40)
    assert loss.loss(cosines, labels) == CosineEmbedding().loss(cosines, labels)


@pytest.mark.parametrize("name", PARTS["head"])
def test_every_head_maps_a_batch_to_its_outputs_and_can_be_started(name: str) -> None:
    head = load_part("head", name)(12, 1, Head(name=name, width=4)).eval()
    for rows in (1, 5):
        assert head(draw(rows, 12)).shape == (rows, 1)
    head.start_at(torch.tensor([0.5]))


def test_in_the_model_the_cosine_is_that_of_a_pairs_two_embeddings() -> None:
    task = TaskSpec(
        loss="cosine_mse", pairing="siamese", pooling="mean", features=("u", "v"), head=BARE
    )
    torch.manual_seed(0)
    made = MultitaskModel(TINY, StageSpec(tasks={"sts": task}, dropout=STILL)).eval()
    made.requires_grad_(False)
    assert list(made.heads["sts"].parameters()) == []
    batch = random_batch((3, 4, 2, 5))
    pooled = made.pooled("sts", batch)
    expected = [
        float(torch.dot(pooled[n], pooled[2 + n]) / pooled[n].norm() / pooled[2 + n].norm())
        for n in range(2)
    ]
    assert made("sts", batch).flatten().tolist() == pytest.approx(expected, abs=1e-5)
