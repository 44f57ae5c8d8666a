"""Squared error on one number."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from minbert.train.losses import HIGHEST, coin


class MeanSquaredError:
    """Squared error in the label's own units; the prediction is the head's output."""

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        """Mean over the batch of (output - label)^2; `output` [B, 1], `label` [B] real."""
        return F.mse_loss(output.float().squeeze(-1), label)

    def constant(self, label: Tensor, classes: int) -> Tensor:
        """The mean label, [1]."""
        return label.mean().reshape(1)

    def scores(self, output: Tensor) -> Tensor:
        """The value, [B, 1]."""
        return output.float()

    def prediction(self, output: Tensor) -> Tensor:
        """The value, [B]."""
        return output.float().squeeze(-1)

    def log_probabilities(self, output: Tensor) -> Tensor:
        """A coin with the value's share of the highest label (5, as of STS), [B, 2]."""
        return coin(self.prediction(output) / HIGHEST)
