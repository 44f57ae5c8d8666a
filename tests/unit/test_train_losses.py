"""Losses: what is trained on, how a head's output is read; divergences of two outputs."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from stepping import generator
from torch import Tensor
from torch.nn import functional as F

from minbert.spec.parts import PARTS, load_part
from minbert.train.divergences.squared_error import squared_error
from minbert.train.divergences.symmetric_kl import symmetric_kl
from minbert.train.losses import EDGE, HIGHEST, Loss

DRAW = generator()
CLASSES = torch.randn(6, 5, generator=DRAW), torch.tensor([0.0, 4.0, 2.0, 2.0, 1.0, 3.0])
BINARY = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
MOSTLY = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
REAL = torch.tensor([0.0, 2.8, 5.0, 1.25, 3.0, 4.4])
EXAMPLES: dict[str, tuple[Tensor, Tensor]] = {
    "cross_entropy": CLASSES,
    "binary_cross_entropy": (torch.randn(6, 1, generator=DRAW), BINARY),
    "cosine_embedding": (torch.rand(6, 1, generator=DRAW) * 2 - 1, MOSTLY),
    "cosine_mse": (torch.rand(6, 1, generator=DRAW) * 2 - 1, REAL),
    "mse": (torch.randn(6, 1, generator=DRAW), REAL),
}
every_loss = pytest.mark.parametrize("name", EXAMPLES)


def made(name: str) -> Loss:
    loss: Loss = load_part("loss", name)()
    return loss


def log_softmax(logits: list[float], of: int) -> float:
    return logits[of] - math.log(sum(math.exp(x) for x in logits))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


BY_HAND = [
    (
        "cross_entropy",
        [[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]],
        [1.0, 2.0],
        -(log_softmax([1.0, 2.0, 0.5], 1) + log_softmax([0.0, -1.0, 3.0], 2)) / 2,
        [1.0, 2.0],
    ),
    (
        "binary_cross_entropy",
        [[0.7], [-1.2], [0.0]],
        [1.0, 1.0, 0.0],
        -(math.log(sigmoid(0.7)) + math.log(sigmoid(-1.2)) + math.log(0.5)) / 3,
        [1.0, 0.0, 0.0],
    ),
    # A label is used as it is, not its whole part.
    (
        "mse",
        [[0.7], [-1.2], [0.0]],
        [2.8, 0.0, 4.2],
        (2.1**2 + 1.2**2 + 4.2**2) / 3,
        [0.7, -1.2, 0.0],
    ),
    ("cosine_mse", [[0.5], [-0.4], [1.0]], [2.8, 0.0, 4.0], (0.3**2 + 1) / 3, [2.5, 0.0, 5.0]),
    ("cosine_embedding", [[0.0], [1e-6], [-0.4]], [1.0, 0.0, 1.0], 2.4 / 3, [0.0, 1.0, 0.0]),
]


@pytest.mark.parametrize(("name", "output", "label", "loss", "prediction"), BY_HAND)
def test_by_hand(
    name: str,
    output: list[list[float]],
    label: list[float],
    loss: float,
    prediction: list[float],
) -> None:
    given = torch.tensor(output)
    assert made(name).loss(given, torch.tensor(label)).item() == pytest.approx(loss, rel=1e-5)
    assert made(name).prediction(given).tolist() == pytest.approx(prediction)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@every_loss
def test_log_probabilities_are_those_of_a_distribution(name: str, scale: float) -> None:
    output, loss = (scale * EXAMPLES[name][0]).requires_grad_(), made(name)
    found, scores = loss.log_probabilities(output), loss.scores(output)
    assert found.dtype == torch.float32 and found.isfinite().all()
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(6))
    if name.endswith("mse"):  # a place between 0 and 5
        scores = (scores / HIGHEST).clamp(EDGE, 1 - EDGE)
    if scale == 1 or name.endswith("mse"):
        torch.testing.assert_close(found.exp()[:, -1], scores[:, -1])
    found.sum().backward()
    assert output.grad.isfinite().all()


@every_loss
def test_the_constant_output_is_the_best_one(name: str) -> None:
    (output, label), loss = EXAMPLES[name], made(name)
    constant = loss.constant(label, output.shape[1])
    assert constant.shape == (output.shape[1],)
    least = loss.loss(constant.expand(len(label), -1), label)
    for place in range(len(constant)):
        for step in (-0.05, 0.05):
            moved = constant.clone()
            moved[place] += step
            if abs(moved).max() <= 1 or "cosine" not in name:
                assert loss.loss(moved.expand(len(label), -1), label) > least


def test_squared_error_by_hand() -> None:
    values, others = torch.tensor([[2.0], [1.0]]), torch.tensor([[0.0], [4.0]])
    assert squared_error(made("mse"), values, others).item() == pytest.approx(6.5)
    cosines = torch.tensor([[0.5], [-1.0]]), torch.tensor([[0.1], [0.2]])
    assert squared_error(made("cosine_mse"), *cosines).item() == pytest.approx((4 + 1) / 2)


def test_symmetric_kl_is_both_ways_of_torchs() -> None:
    one, other = torch.randn(2, 6, 5).unbind()
    p, q = one.log_softmax(-1), other.log_softmax(-1)
    kl = partial(F.kl_div, reduction="batchmean", log_target=True)
    found = symmetric_kl(made("cross_entropy"), one, other)
    torch.testing.assert_close(found, kl(q, p) + kl(p, q))
    torch.testing.assert_close(found, symmetric_kl(made("cross_entropy"), other, one))


@pytest.mark.parametrize("name", PARTS["divergence"])
def test_equal_outputs_do_not_diverge(name: str) -> None:
    output = torch.randn(4, 1)
    assert load_part("divergence", name)(made("mse"), output, output.clone()).item() == 0.0
