"""A multilayer perceptron as a task's head."""

from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

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
