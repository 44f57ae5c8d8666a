"""Losses: what is trained on, how a head's output is read; divergences of two outputs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from minbert.spec.parts import PARTS, load_part
from minbert.train.losses import EDGE, HIGHEST

# By hand: outputs, labels, their loss, predictions.
BY_HAND: dict[str, tuple[list[list[float]], list[float], float, list[float]]] = {
    "cross_entropy": (
        [[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]],
        [1.0, 2.0, 0.0, 1.0],
        0.4671025,
        [1.0, 2.0, 0.0, 1.0],
    ),
    "binary_cross_entropy": ([[0.7], [-1.2], [0.0]], [1.0, 1.0, 0.0], 0.8532052, [1.0, 0.0, 0.0]),
    # A label is used as it is, not its whole part.
    "mse": (
        [[0.7], [-1.2], [0.0]],
        [2.8, 0.0, 4.2],
        (2.1**2 + 1.2**2 + 4.2**2) / 3,
        [0.7, -1.2, 0.0],
    ),
    "cosine_mse": ([[0.5], [-0.4], [1.0]], [2.8, 0.0, 4.0], (0.3**2 + 1) / 3, [2.5, 0.0, 5.0]),
    "cosine_embedding": ([[0.0], [1e-6], [-0.4]], [1.0, 0.0, 1.0], 2.4 / 3, [0.0, 1.0, 0.0]),
}
every_loss = pytest.mark.parametrize("name", PARTS["loss"])


def made(name: str) -> Any:
    return load_part("loss", name)()


@every_loss
def test_by_hand(name: str) -> None:
    output, label, loss, prediction = BY_HAND[name]
    given = torch.tensor(output)
    assert made(name).loss(given, torch.tensor(label)).item() == pytest.approx(loss, rel=1e-5)
    assert made(name).prediction(given).tolist() == pytest.approx(prediction)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@every_loss
def test_log_probabilities_are_those_of_a_distribution(name: str, scale: float) -> None:
    output, loss = (scale * torch.tensor(BY_HAND[name][0])).requires_grad_(), made(name)
    found, scores = loss.log_probabilities(output), loss.scores(output)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(len(output)))
    if name.endswith("mse"):  # a place between 0 and 5
        scores = (scores / HIGHEST).clamp(EDGE, 1 - EDGE)
    if scale == 1 or name.endswith("mse"):
        torch.testing.assert_close(found.exp()[:, -1], scores[:, -1])
    found.sum().backward()
    assert found.isfinite().all() and output.grad.isfinite().all()


@pytest.mark.parametrize("name", ["cross_entropy", "binary_cross_entropy", "mse"])
def test_the_constant_output_is_the_best_one(name: str) -> None:
    loss, label = made(name), torch.tensor(BY_HAND[name][1])
    constant = loss.constant(label, len(BY_HAND[name][0][0]))
    least = loss.loss(constant.expand(len(label), -1), label)
    for step in (*torch.eye(len(constant)), *-torch.eye(len(constant))):
        moved = constant + 0.05 * step
        assert loss.loss(moved.expand(len(label), -1), label) > least


def test_squared_error_by_hand() -> None:
    pair = torch.tensor([[0.5], [-1.0]]), torch.tensor([[0.1], [0.2]])
    found = load_part("divergence", "squared_error")(made("cosine_mse"), *pair)
    assert found.item() == pytest.approx((4 + 1) / 2), "of predictions, 2.5, 0 and 0.5, 1"


@pytest.mark.parametrize("name", ["symmetric_kl", "detached_kl"])
def test_divergences_of_classes_are_both_ways_of_torchs(name: str) -> None:
    one, other = torch.randn(2, 6, 5).unbind()
    p, q = one.log_softmax(-1), other.log_softmax(-1)
    kl = partial(F.kl_div, reduction="batchmean", log_target=True)
    found = load_part("divergence", name)(made("cross_entropy"), one, other)
    torch.testing.assert_close(found, kl(q, p) + kl(p, q))
