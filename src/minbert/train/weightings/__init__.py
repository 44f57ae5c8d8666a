"""Task weightings: what each task's loss is multiplied by, found anew at each step.

A task's `weight` stays: a step's loss is the sum of f l over its n tasks, l being weighted losses
[n] and f factors [n], which no gradient goes through.
"""

from abc import ABC, abstractmethod

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
