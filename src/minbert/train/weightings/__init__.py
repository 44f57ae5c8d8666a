"""Task weightings: what each task's loss is multiplied by, found anew at each step.

A task's `weight` stays: a weighting sees the weighted losses l [n] of a step's n tasks and returns
factors f [n], which no gradient goes through. The step's gradient is that of the sum of f l.
"""

import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.train.checkpoints import Part


class Weighting(Part):
    """A weighting of `tasks` tasks, on `device`; random draws come from `generator` (CPU).

    Its state is what later factors depend on besides losses and the generator.
    """

    def __init__(self, tasks: int, generator: torch.Generator, device: torch.device) -> None:
        self.tasks, self.generator, self.device = tasks, generator, device

    def __call__(self, losses: Tensor) -> Tensor:
        """Return the factors [n] of a step's weighted `losses` [n], detached."""
        raise NotImplementedError

    def parameters(self) -> list[Parameter]:
        """Return what is learned with the model; `__call__` sets the gradients."""
        return []

    def end_epoch(self) -> None:
        """Note that an epoch is over."""
