"""Cross-entropy over classes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


class CrossEntropy:
    """Softmax cross-entropy; the prediction is the most probable class."""

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        """Mean over the batch of -log p(label); `output` [B, C], `label` [B] whole numbers."""
        return F.cross_entropy(output.float(), label.long())

    def constant(self, label: Tensor, classes: int) -> Tensor:
        """Logarithms of the class shares [C]; a class that never comes counts as seen once."""
        counts = torch.bincount(label.long(), minlength=classes).clamp(min=1)
        return (counts / counts.sum()).log()

    def scores(self, output: Tensor) -> Tensor:
        """Class probabilities [B, C]."""
        return output.float().softmax(-1)

    def prediction(self, output: Tensor) -> Tensor:
        """The most probable class [B]."""
        return output.argmax(-1).float()

    def log_probabilities(self, output: Tensor) -> Tensor:
        """Logarithms of the class probabilities, [B, C]."""
        return output.float().log_softmax(-1)
