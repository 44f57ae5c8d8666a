"""From a pooled embedding, or features of two of them, to a task's logits."""

from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from minbert.model.layers import Dropout
from minbert.spec.task import Head


class MLPHead(nn.Module):
    """`depth` linear layers, `width` wide, with dropout before each: logits [B, out_features]."""

    def __init__(self, in_features: int, out_features: int, head: Head) -> None:
        super().__init__()
        sizes = [in_features, *[head.width] * (head.depth - 1), out_features]
        # Weights start uniform within 1 / sqrt(inputs), as in the course's starter code.
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout = Dropout(head.dropout)

    @torch.no_grad()
    def start_at(self, output: Tensor) -> None:
        """Set the last bias, so that the output starts around `output` [out_features]."""
        cast(nn.Linear, self.linears[-1]).bias.copy_(output)

    def forward(self, embedding: Tensor) -> Tensor:
        *inside, last = self.linears
        for linear in inside:
            embedding = linear(self.dropout(embedding)).relu()
        return last(self.dropout(embedding))


class CosineHead(nn.Module):
    """Cosine of u and v after the same `depth` linear layers, `width` wide.

    It maps features [u, v], [B, in_features], to cosines [B, 1] (Reimers and Gurevych, 2019). Each
    layer has dropout before it and ReLU after it (minbert-downstream, section 3.3.2); with a depth
    of 0 there is nothing to train (adapter-fusion, section 4.1; minibert-unleashed, section 4.4).
    Above the `threshold`, which is not trained, a loss that tells two classes apart takes a cosine
    for the label 1; it is 0 as in the papers unless `part_at` sets it.
    """

    threshold: Tensor

    def __init__(self, in_features: int, out_features: int, head: Head) -> None:
        super().__init__()
        sizes = [in_features // 2, *[head.width] * head.depth]
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout = Dropout(head.dropout)
        self.register_buffer("threshold", torch.zeros(1))

    def start_at(self, output: Tensor) -> None:
        """Do nothing: a cosine has no bias."""

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
