"""Cosine embedding loss: paraphrases point the same way (adapter-fusion, section 4.1)."""

from __future__ import annotations

import torch
from torch import Tensor

from minbert.train.losses import coin


class CosineEmbedding:
    """Reads a cosine in [-1, 1], as head `cosine` gives it; margin 0.

    The prediction is 1 where the cosine is above 0.
    """

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        """Mean over the batch of 1 - cosine where `label` [B] is 1, and of max(0, cosine) else."""
        cosine = output.float().squeeze(-1)
        return torch.where(label > 0, 1 - cosine, cosine.relu()).mean()

    def constant(self, label: Tensor, classes: int) -> Tensor:
        """1 if most labels are, else 0, [1]: the loss is linear between the two."""
        return (label.mean() > 0.5).float().reshape(1)

    def scores(self, output: Tensor) -> Tensor:
        """The cosine's place between -1 and 1, as a share, [B, 1]."""
        return (output.float() + 1) / 2

    def prediction(self, output: Tensor) -> Tensor:
        """0 or 1, [B]."""
        return (output.float().squeeze(-1) > 0).float()

    def log_probabilities(self, output: Tensor) -> Tensor:
        """A coin with the probability that `scores` gives, [B, 2]."""
        return coin(self.scores(output).squeeze(-1))
