"""Cross-entropy over classes."""

import torch
from torch import Tensor
from torch.nn import functional as F


class CrossEntropy:
    """Softmax cross-entropy; labels are whole numbers, the prediction is the likeliest class."""

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(output, label.long())

    def constant(self, label: Tensor, classes: int) -> Tensor:
        """Return the logarithms of class shares; a class that never occurs counts as seen once."""
        counts = torch.bincount(label.long(), minlength=classes).clamp(min=1)
        return (counts / counts.sum()).log()

    def scores(self, output: Tensor) -> Tensor:
        return output.softmax(-1)

    def prediction(self, output: Tensor) -> Tensor:
        return output.argmax(-1).float()

    def log_probabilities(self, output: Tensor) -> Tensor:
        return output.log_softmax(-1)
