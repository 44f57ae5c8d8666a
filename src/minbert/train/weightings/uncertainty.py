"""Weighting by homoscedastic uncertainty (Kendall et al., 2018, section 3.2)."""

import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.train.weightings import Weighting


class Uncertainty(Weighting):
    """A step's loss is the sum of exp(-s) l / 2 + s / 2, with a learned log variance s per task.

    The s start at 0 and are trained like all other parameters.
    """

    kept = ("log_variances",)

    def __init__(self, tasks: int, generator: torch.Generator, device: torch.device) -> None:
        super().__init__(tasks, generator, device)
        self.log_variances = Parameter(torch.zeros(tasks, device=device))

    def __call__(self) -> Tensor:
        return torch.exp(-self.log_variances.detach()) / 2

    def parameters(self) -> list[Parameter]:
        return [self.log_variances]

    def learn(self, losses: Tensor) -> None:
        self.log_variances.grad = 0.5 - self() * losses
