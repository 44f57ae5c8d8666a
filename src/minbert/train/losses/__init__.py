"""Losses: each turns a head's output into a loss, scores and a prediction."""

from typing import Protocol

import torch
from torch import Tensor, nn

from minbert.spec.parts import load_part

HIGHEST = 5.0
"""The highest label of a task whose label is a number: STS, scored from 0 to 5."""
EDGE = 1e-3
"""How close a probability may come to 0 and 1, where its logarithm would be infinite."""


class Loss(Protocol):
    """What a task is trained on: reads a head's `output` [B, classes]; `label` is [B], float32."""

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        """Return the scalar mean over the batch."""

    def constant(self, label: Tensor, classes: int) -> Tensor:
        """Return the output [classes] that, given for all of `label` [N], has the smallest loss.

        Losses of cosines have none: their head has no bias that could start there.
        """

    def scores(self, output: Tensor) -> Tensor:
        """Return [B, n]: class probabilities, the probability of 1, or the value itself."""

    def prediction(self, output: Tensor) -> Tensor:
        """Return [B], float: the class, 0 or 1, or the value."""

    def log_probabilities(self, output: Tensor) -> Tensor:
        """Return [B, n]: logarithms of the predicted distribution; of a value, see `coin`."""


def task_loss(name: str, head: nn.Module) -> Loss:
    """Return the loss called `name`, which reads the output of `head`, and its threshold if any."""
    loss = load_part("loss", name)()
    loss.threshold = getattr(head, "threshold", 0.0)
    return loss


def coin(probability: Tensor) -> Tensor:
    """Return the logarithms [B, 2] of 1 - p and p for `probability` [B], kept off 0 and 1."""
    p = probability.clamp(EDGE, 1 - EDGE)
    return torch.stack([torch.log1p(-p), p.log()], dim=-1)
