"""Task weightings: what each task's loss is multiplied by, found anew at each step.

A task's `weight` stays: a step's loss is the sum of f l over its n tasks, l being weighted losses
[n] and f factors [n], which no gradient goes through.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.train.checkpoints import Part


class Weighting(Part, ABC):
    """A weighting of `tasks` tasks, on `device`; draws come from `generator` (CPU)."""

    def __init__(self, tasks: int, generator: torch.Generator, device: torch.device) -> None:
        self.tasks, self.generator, self.device = tasks, generator, device

    @abstractmethod
    def __call__(self) -> Tensor:
        """Return the factors [n] of the next step, on `device`."""

    def parameters(self) -> list[Parameter]:
        """Return what is learned with the model; `learn` sets the gradients."""
        return []

    def learn(self, losses: Tensor) -> None:
        """Take in the weighted `losses` [n] of a step, without its factors, detached."""


class Random(Weighting):
    """The softmax of standard normal draws of each step (Lin et al., 2022, algorithm 2)."""

    def __call__(self) -> Tensor:
        drawn = torch.randn(self.tasks, generator=self.generator)
        return torch.softmax(drawn, dim=0).to(self.device)


class Uncertainty(Weighting):
    """Weighting by homoscedastic uncertainty (Kendall et al., 2018, section 3.2).

    A step's loss is the sum of exp(-s) l / 2 + s / 2; log variances s, from 0, are learned.
    """

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
