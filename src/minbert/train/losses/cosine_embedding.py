"""Cosine embedding loss: paraphrases point the same way (adapter-fusion, section 4.1)."""

import torch
from torch import Tensor

from minbert.train.losses import coin


class CosineEmbedding:
    """Reads a cosine in [-1, 1], as head `cosine` gives it; margin 0.

    The loss is 1 - cosine where the label is 1, and max(0, cosine) elsewhere. The prediction is 1
    where the cosine is above the head's threshold, 0 in the papers; its probability is .5 there,
    and grows by .5 as the cosine grows by 1.
    """

    threshold: Tensor | float = 0.0

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        cosine = output.squeeze(-1)
        return torch.where(label > 0, 1 - cosine, cosine.relu()).mean()

    def scores(self, output: Tensor) -> Tensor:
        return ((output - self.threshold + 1) / 2).clamp(0, 1)

    def prediction(self, output: Tensor) -> Tensor:
        return (output.squeeze(-1) > self.threshold).float()

    def log_probabilities(self, output: Tensor) -> Tensor:
        return coin(self.scores(output).squeeze(-1))
