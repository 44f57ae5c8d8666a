"""Divergences between two outputs of a head, as SMART uses them."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from minbert.spec.parts import PARTS, load_part
from minbert.train.divergences.squared_error import squared_error
from minbert.train.divergences.symmetric_kl import symmetric_kl
from minbert.train.losses.binary_cross_entropy import BinaryCrossEntropy
from minbert.train.losses.cosine_mse import CosineSquaredError
from minbert.train.losses.cross_entropy import CrossEntropy
from minbert.train.losses.mse import MeanSquaredError


def test_by_hand() -> None:
    logit, other = torch.tensor([[math.log(3.0)], [0.0]]), torch.zeros(2, 1)  # p = 3/4, 1/2
    by_hand = (0.75 - 0.5) * math.log(0.75 / 0.5) + (0.25 - 0.5) * math.log(0.25 / 0.5)
    found = symmetric_kl(BinaryCrossEntropy(), logit, other)
    assert found.item() == pytest.approx(by_hand / 2, rel=1e-5)
    values, others = torch.tensor([[2.0], [1.0]]), torch.tensor([[0.0], [4.0]])
    assert squared_error(MeanSquaredError(), values, others).item() == pytest.approx(6.5)
    cosines = torch.tensor([[0.5], [-1.0]]), torch.tensor([[0.1], [0.2]])
    assert squared_error(CosineSquaredError(), *cosines).item() == pytest.approx((4 + 1) / 2)


def test_symmetric_kl_is_both_ways_of_torchs() -> None:
    one, other = torch.randn(2, 6, 5).unbind()
    p, q = one.log_softmax(-1), other.log_softmax(-1)
    kl = partial(F.kl_div, reduction="batchmean", log_target=True)
    found = symmetric_kl(CrossEntropy(), one, other)
    torch.testing.assert_close(found, kl(q, p) + kl(p, q))
    torch.testing.assert_close(found, symmetric_kl(CrossEntropy(), other, one))


@pytest.mark.parametrize("name", PARTS["divergence"])
def test_equal_outputs_do_not_diverge(name: str) -> None:
    output = torch.randn(4, 1)
    apart = load_part("divergence", name)(MeanSquaredError(), output, output.clone())
    assert apart.item() == 0.0
