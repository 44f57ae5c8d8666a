"""Binary cross-entropy on one logit."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


class BinaryCrossEntropy:
    """Sigmoid cross-entropy; the prediction is 1 where the probability is above one half."""

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        """Mean over the batch; `output` [B, 1] logits, `label` [B] in {0, 1}."""
        return F.binary_cross_entropy_with_logits(output.float().squeeze(-1), label)

    def constant(self, label: Tensor, classes: int) -> Tensor:
        """Logarithm of the odds of 1, [1]; each label counts as seen at least once."""
        share = label.mean().clamp(1 / len(label), 1 - 1 / len(label))
        return share.logit().reshape(1)

    def scores(self, output: Tensor) -> Tensor:
        """The probability of 1, [B, 1]."""
        return output.float().sigmoid()

    def prediction(self, output: Tensor) -> Tensor:
        """0 or 1, [B]."""
        return (output.float().squeeze(-1) > 0).float()

    def log_probabilities(self, output: Tensor) -> Tensor:
        """Logarithms of the probabilities of 0 and 1, [B, 2]."""
        logit = output.float().squeeze(-1)
        return torch.stack([F.logsigmoid(-logit), F.logsigmoid(logit)], dim=-1)
