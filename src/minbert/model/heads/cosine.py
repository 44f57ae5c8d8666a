"""The cosine of two sentence embeddings as a task's head (Reimers and Gurevych, 2019)."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from minbert.model.layers import Dropout
from minbert.spec.task import Head


class CosineHead(nn.Module):
    """Cosine of u and v after the same `depth` linear layers, `width` wide.

    It maps features [u, v], [B, in_features], to cosines [B, 1]. Each layer has dropout before it
    and ReLU after it (minbert-downstream, section 3.3.2); with a depth of 0 there is nothing to
    train (adapter-fusion, section 4.1; minibert-unleashed, section 4.4). Above the `threshold`,
    which is not trained, a loss that tells two classes apart takes a cosine for the label 1; it is
    0 as in the papers unless `part_at` sets it.
    """

    threshold: Tensor

    def __init__(self, in_features: int, out_features: int, head: Head) -> None:
        super().__init__()
        sizes = [in_features // 2, *[head.width] * head.depth]
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout = Dropout(head.dropout)
        self.register_buffer("threshold", torch.zeros(1))

    def part_at(self, cosines: Tensor, share: float) -> None:
        """Set the threshold so that a `share` of `cosines` [N, 1] is above it."""
        self.threshold.copy_(torch.quantile(cosines, 1 - share))

    def _side(self, embedding: Tensor) -> Tensor:
        for linear in self.linears:
            embedding = linear(self.dropout(embedding)).relu()
        return embedding

    def forward(self, embedding: Tensor) -> Tensor:
        u, v = embedding.chunk(2, dim=1)
        return F.cosine_similarity(self._side(u), self._side(v), dim=1).unsqueeze(1)
