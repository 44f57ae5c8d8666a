"""BERT's layers with norms before the sublayers, and one after the last layer."""

import torch.nn.functional as F
from torch import Tensor

from minbert.model.encoder import Attention, FeedForward, Layer, Stack, add
from minbert.model.packed import Packed
from minbert.model.precision import LayerNorm
from minbert.spec.architecture import Architecture
from minbert.spec.stage import Dropout


class PreNormAttention(Attention):
    def forward(self, hidden: Tensor, batch: Packed, first_only: bool = False) -> Tensor:
        context = self.context(self.norm(hidden), batch, first_only)
        if first_only:
            hidden = hidden.index_select(0, batch.first)
        return add(self, hidden, self.output(context))


class PreNormFeedForward(FeedForward):
    def forward(self, hidden: Tensor) -> Tensor:
        inner = F.gelu(self.inner(self.norm(hidden)), approximate=self.approximate)
        return add(self, hidden, self.output(inner))


class PreNormLayer(Layer):
    def __init__(self, arch: Architecture, dropout: Dropout, number: int) -> None:
        super().__init__(arch, dropout, number)
        self.attention = PreNormAttention(arch, dropout)
        self.feed_forward = PreNormFeedForward(arch, dropout)
        last = number == arch.layers - 1
        self.final_norm = LayerNorm(arch.hidden, eps=arch.layer_norm_eps) if last else None

    def forward(self, hidden: Tensor, batch: Packed, first_only: bool = False) -> Tensor:
        hidden = super().forward(hidden, batch, first_only)
        return hidden if self.final_norm is None else self.final_norm(hidden)


class PreNormStack(Stack):
    layer_of = PreNormLayer
