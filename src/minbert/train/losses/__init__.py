"""Losses: each turns a head's output into a loss, scores and a prediction."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Loss(Protocol):
    """What a task is trained on, and how its head's output is read.

    `output` is [B, classes], as the head gave it; `label` is [B], float32.
    """

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        """Return the scalar mean over the batch."""
        ...

    def constant(self, label: Tensor, classes: int) -> Tensor:
        """Return [classes]: the output that, given for all of `label` [N], has the least loss."""
        ...

    def scores(self, output: Tensor) -> Tensor:
        """Return [B, n]: class probabilities, the probability of 1, or the value itself."""
        ...

    def prediction(self, output: Tensor) -> Tensor:
        """Return [B], float: the class, 0 or 1, or the value."""
        ...
