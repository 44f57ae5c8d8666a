"""Losses: what is trained on, and how a head's output is read."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from minbert.spec.parts import PARTS, load_part
from minbert.spec.task import TASKS
from minbert.train.losses import EDGE, HIGHEST, coin
from minbert.train.losses.binary_cross_entropy import BinaryCrossEntropy
from minbert.train.losses.cosine_embedding import CosineEmbedding
from minbert.train.losses.cosine_mse import CosineSquaredError
from minbert.train.losses.cross_entropy import CrossEntropy
from minbert.train.losses.mse import MeanSquaredError

CLASSES = torch.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]])
ONE = torch.tensor([[0.7], [-1.2], [0.0]])
DRAW = torch.Generator().manual_seed(0)
EXAMPLES = {
    "cross_entropy": (
        torch.randn(6, 5, generator=DRAW),
        torch.tensor([0.0, 4.0, 2.0, 2.0, 1.0, 3.0]),
    ),
    "binary_cross_entropy": (
        torch.randn(6, 1, generator=DRAW),
        torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]),
    ),
    "cosine_embedding": (
        torch.rand(6, 1, generator=DRAW) * 2 - 1,
        torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 1.0]),
    ),
    "cosine_mse": (
        torch.rand(6, 1, generator=DRAW) * 2 - 1,
        torch.tensor([0.0, 2.8, 5.0, 1.25, 3.0, 4.4]),
    ),
    "mse": (torch.randn(6, 1, generator=DRAW), torch.tensor([0.0, 2.8, 5.0, 1.25, 3.0, 4.4])),
}


def test_every_loss_is_covered() -> None:
    assert EXAMPLES.keys() == PARTS["loss"].keys()


def test_cross_entropy_by_hand() -> None:
    label = torch.tensor([1.0, 2.0])
    expected = 0.0
    for logits, true in zip(CLASSES.tolist(), (1, 2), strict=True):
        expected -= math.log(math.exp(logits[true]) / sum(math.exp(x) for x in logits)) / 2
    loss = CrossEntropy()
    assert loss.loss(CLASSES, label).item() == pytest.approx(expected, rel=1e-6)
    torch.testing.assert_close(loss.loss(CLASSES, label), F.cross_entropy(CLASSES, label.long()))
    assert loss.prediction(CLASSES).tolist() == [1.0, 2.0]
    torch.testing.assert_close(loss.scores(CLASSES), F.softmax(CLASSES, dim=1))


def test_binary_cross_entropy_by_hand() -> None:
    label = torch.tensor([1.0, 1.0, 0.0])
    p = [1 / (1 + math.exp(-x)) for x in ONE.flatten().tolist()]
    expected = -(math.log(p[0]) + math.log(p[1]) + math.log(1 - p[2])) / 3
    loss = BinaryCrossEntropy()
    assert loss.loss(ONE, label).item() == pytest.approx(expected, rel=1e-6)
    assert loss.scores(ONE).flatten().tolist() == pytest.approx(p, rel=1e-6)
    assert loss.prediction(ONE).tolist() == [1.0, 0.0, 0.0]


def test_squared_error_uses_the_label_as_it_is_not_its_whole_part() -> None:
    label = torch.tensor([2.8, 0.0, 4.2])
    expected = ((0.7 - 2.8) ** 2 + 1.2**2 + 4.2**2) / 3
    loss = MeanSquaredError()
    assert loss.loss(ONE, label).item() == pytest.approx(expected, rel=1e-6)
    assert loss.loss(ONE, label).item() != pytest.approx(loss.loss(ONE, label.floor()).item())
    assert torch.equal(loss.prediction(ONE), ONE[:, 0])
    assert torch.equal(loss.scores(ONE), ONE)


def test_cosine_embedding_is_torchs_of_the_vectors() -> None:
    draw = torch.Generator().manual_seed(3)
    u, v = (torch.randn(20, 8, generator=draw) for _ in range(2))
    label = (torch.rand(20, generator=draw) > 0.5).float()
    cosine = F.cosine_similarity(u, v)[:, None]
    expected = F.cosine_embedding_loss(u, v, 2 * label - 1, margin=0.0)
    loss = CosineEmbedding()
    torch.testing.assert_close(loss.loss(cosine, label), expected)
    assert torch.equal(loss.prediction(cosine), (cosine[:, 0] > 0).float())
    assert loss.prediction(torch.tensor([[0.0], [1e-6]])).tolist() == [0.0, 1.0]


def test_cosine_squared_error_by_hand() -> None:
    cosine, label = torch.tensor([[0.5], [-0.4], [1.0]]), torch.tensor([2.8, 0.0, 4.0])
    loss = CosineSquaredError()
    assert loss.prediction(cosine).tolist() == [2.5, 0.0, 5.0]
    assert loss.loss(cosine, label).item() == pytest.approx((0.3**2 + 0 + 1) / 3)


@pytest.mark.parametrize("name", EXAMPLES)
def test_log_probabilities_are_those_of_a_distribution(name: str) -> None:
    output, _ = EXAMPLES[name]
    loss = load_part("loss", name)()
    for scale in (1.0, 1e4):
        p = loss.log_probabilities(output * scale)
        assert p.isfinite().all() or name.endswith("entropy")
        torch.testing.assert_close(p.exp().sum(-1), torch.ones(6))
    p = loss.log_probabilities(output).exp()
    if name == "cross_entropy":
        torch.testing.assert_close(p, loss.scores(output))
    elif name in ("cosine_embedding", "binary_cross_entropy"):
        torch.testing.assert_close(p[:, 1], loss.scores(output)[:, 0])
    else:
        share = (loss.prediction(output) / 5).clamp(1e-3, 1 - 1e-3)
        torch.testing.assert_close(p[:, 1], share)


@pytest.mark.parametrize("name", EXAMPLES)
def test_shapes_and_types(name: str) -> None:
    output, label = EXAMPLES[name]
    loss = load_part("loss", name)()
    value, scores, prediction = (
        loss.loss(output, label),
        loss.scores(output),
        loss.prediction(output),
    )
    assert value.shape == () and scores.shape == output.shape and prediction.shape == (6,)
    assert value.dtype == scores.dtype == prediction.dtype == torch.float32


@pytest.mark.parametrize("name", EXAMPLES)
def test_mean_over_the_batch(name: str) -> None:
    output, label = EXAMPLES[name]
    loss = load_part("loss", name)()
    singles = [loss.loss(output[i : i + 1], label[i : i + 1]) for i in range(6)]
    torch.testing.assert_close(loss.loss(output, label), torch.stack(singles).mean())


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_batch_of_one(name: str) -> None:
    output, label = EXAMPLES[name]
    loss = load_part("loss", name)()
    assert torch.isfinite(loss.loss(output[:1], label[:1]))
    assert loss.prediction(output[:1]).shape == (1,)


@pytest.mark.parametrize("name", PARTS["loss"])
def test_the_constant_output_is_the_best_one(name: str) -> None:
    loss = load_part("loss", name)()
    output, label = EXAMPLES[name]
    constant = loss.constant(label, output.shape[1])
    assert constant.shape == (output.shape[1],)
    least = loss.loss(constant.expand(len(label), -1), label)
    for place in range(len(constant)):
        for step in (-0.05, 0.05):
            moved = constant.clone()
            moved[place] += step
            if abs(moved).max() <= 1 or "cosine" not in name:
                assert loss.loss(moved.expand(len(label), -1), label) > least


def test_constants_of_labels_that_never_come_are_finite() -> None:
    assert CrossEntropy().constant(torch.tensor([0.0, 0.0]), 3).isfinite().all()
    for share in (0.0, 1.0):
        assert BinaryCrossEntropy().constant(torch.full((4,), share), 1).isfinite().all()


def test_cosine_losses_gradients_by_hand() -> None:
    cosine = torch.tensor([[0.7], [-0.4], [0.25], [-0.9]], requires_grad=True)
    loss = CosineEmbedding().loss(cosine, torch.tensor([1.0, 1.0, 0.0, 0.0]))
    (found,) = torch.autograd.grad(4 * loss, cosine)
    assert found.flatten().tolist() == [-1, -1, 1, 0], "no paraphrases: no closer than at an angle"
    loss = CosineSquaredError().loss(cosine, torch.tensor([2.8, 0.5, 5.0, 1.0]))
    (found,) = torch.autograd.grad(4 * loss, cosine)
    # A negative cosine is read as 0 whatever it is, so it has no slope.
    assert found.flatten().tolist() == pytest.approx([10 * 0.7, 0, -10 * 3.75, 0], rel=1e-5)


@pytest.mark.parametrize(("share", "constant"), [(0.2, 0.0), (0.5, 0.0), (0.8, 1.0), (1.0, 1.0)])
def test_no_cosine_is_a_better_constant(share: float, constant: float) -> None:
    label = (torch.arange(10) < 10 * share).float()
    loss = CosineEmbedding()
    assert loss.constant(label, 1).tolist() == [constant]
    least = loss.loss(torch.full((10, 1), constant), label)
    for cosine in torch.linspace(-1, 1, 21).tolist():
        assert loss.loss(torch.full((10, 1), cosine), label) >= least - 1e-6


def test_a_coin_is_kept_off_its_edges() -> None:
    found = coin(torch.tensor([-3.0, 0.0, 0.25, 1.0, 40.0])).exp()
    assert found[:, 1].tolist() == pytest.approx([EDGE, EDGE, 0.25, 1 - EDGE, 1 - EDGE])
    torch.testing.assert_close(found.sum(-1), torch.ones(5))
    assert TASKS["sts"].high == HIGHEST


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_log_probabilities_have_finite_gradients(name: str, scale: float) -> None:
    output = (scale * EXAMPLES[name][0]).requires_grad_()
    found = load_part("loss", name)().log_probabilities(output)
    assert found.dtype == torch.float32 and found.isfinite().all()
    found.sum().backward()
    assert output.grad is not None and output.grad.isfinite().all()
