"""Weighting by homoscedastic uncertainty (Kendall et al., 2018, section 3.2)."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.train.weightings import Weighting


class Uncertainty(Weighting):
    """A step's loss is the sum of exp(-s) l / 2 + s / 2; log variances s, from 0, are learned."""

    kept = ("log_variances",)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.log_variances = Parameter(torch.zeros(self.tasks, device=self.device))

    def __call__(self) -> Tensor:
        return torch.exp(-self.log_variances.detach()) / 2

    def parameters(self) -> list[Parameter]:
        return [self.log_variances]

    def learn(self, losses: Tensor) -> None:
        self.log_variances.grad = 0.5 - self() * losses
