"""Dynamic weight average (Liu et al., 2019, section 3.3)."""

import torch
from torch import Tensor

from minbert.train.weightings import Weighting

TEMPERATURE = 2.0
LEAST = 1e-12
"""Stands for a mean loss of 0, which nothing can be divided by."""


class DynamicAverage(Weighting):
    """Tasks whose loss falls more slowly get larger factors; they add up to the number of tasks.

    In epoch t they are n softmax(r / 2), where r is a task's mean loss in epoch t - 1 divided by
    that in epoch t - 2. In the first two epochs they are 1.
    """

    kept = ("sums", "steps", "means")

    def __init__(self, tasks: int, generator: torch.Generator, device: torch.device) -> None:
        super().__init__(tasks, generator, device)
        self.sums = torch.zeros(tasks, device=device)
        self.steps = 0
        self.means = torch.zeros(0, tasks, device=device)  # of the last two epochs, oldest first

    def __call__(self, losses: Tensor) -> Tensor:
        self.sums = self.sums + losses
        self.steps += 1
        if len(self.means) < 2:
            return torch.ones_like(losses)
        older, newer = self.means
        return self.tasks * torch.softmax(newer / older.clamp(min=LEAST) / TEMPERATURE, dim=0)

    def end_epoch(self) -> None:
        mean = self.sums / self.steps
        self.means = torch.cat([self.means, mean[None]])[-2:]
        self.sums, self.steps = torch.zeros_like(self.sums), 0
