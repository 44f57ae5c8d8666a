"""Binary cross-entropy on one logit."""

import torch
from torch import Tensor
from torch.nn import functional as F


class BinaryCrossEntropy:
    """Sigmoid cross-entropy; the prediction is 1 where the probability is above one half."""

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(output.squeeze(-1), label)

    def constant(self, label: Tensor, classes: int) -> Tensor:
        """Return the logarithm of the odds of 1; each label counts as seen at least once."""
        share = label.mean().clamp(1 / len(label), 1 - 1 / len(label))
        return share.logit().reshape(1)

    def scores(self, output: Tensor) -> Tensor:
        return output.sigmoid()

    def prediction(self, output: Tensor) -> Tensor:
        return (output.squeeze(-1) > 0).float()

    def log_probabilities(self, output: Tensor) -> Tensor:
        logit = output.squeeze(-1)
        return torch.stack([F.logsigmoid(-logit), F.logsigmoid(logit)], dim=-1)
