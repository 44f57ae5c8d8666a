"""Squared error of a cosine scaled to the labels' 0 to 5 (adapter-fusion, section 4.1)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from minbert.train.losses import HIGHEST, coin


class CosineSquaredError:
    """Reads a cosine in [-1, 1], as head `cosine` gives it; the prediction is 5 relu(cosine)."""

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        """Mean over the batch of (5 relu(cosine) - label)^2; `label` [B] real, 0 to 5."""
        return F.mse_loss(self.prediction(output), label)

    def constant(self, label: Tensor, classes: int) -> Tensor:
        """The cosine whose prediction is the mean label, [1]."""
        return (label.mean() / HIGHEST).reshape(1)

    def scores(self, output: Tensor) -> Tensor:
        """The value, [B, 1]."""
        return HIGHEST * output.float().relu()

    def prediction(self, output: Tensor) -> Tensor:
        """The value, [B]."""
        return self.scores(output).squeeze(-1)

    def log_probabilities(self, output: Tensor) -> Tensor:
        """A coin with the value's share of 5, [B, 2]."""
        return coin(self.prediction(output) / HIGHEST)
