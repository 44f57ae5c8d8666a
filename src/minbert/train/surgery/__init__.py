"""Gradient surgery: from the Gramian of task gradients to one weight per task.

A method sees only the Gramian G = J J^T of the shared parameters' gradients, J [tasks, P]. Its
update is a combination of the rows of J, so it returns weights w [tasks]: the update is w J.
A method on `whole` gradients sees the Gramian of all trained parameters' gradients: what one task
alone uses gets w_j times that task's gradient, and what all use gets w J divided by their number.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from minbert.train.checkpoints import Part


class Method(Part, ABC):
    """A method of surgery for `tasks` tasks. What it remembers of earlier steps is its state."""

    whole = False
    """Whether gradients are those of all parameters, and what all tasks use gets their mean."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks

    @abstractmethod
    def __call__(self, gramian: Tensor, generator: torch.Generator) -> Tensor:
        """Return weights [n] on the device of `gramian` [n, n]; draw from `generator` (CPU)."""
