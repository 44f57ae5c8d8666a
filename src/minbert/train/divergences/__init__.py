"""Divergences: how far two outputs of one head are apart."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from minbert.train.losses import Loss


class Divergence(Protocol):
    """A function of two outputs [B, classes] of a head whose task has the loss `loss`."""

    def __call__(self, loss: Loss, output: Tensor, other: Tensor) -> Tensor:
        """Return the scalar mean over the batch; 0 where the outputs agree."""
        ...
