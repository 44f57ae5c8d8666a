"""Masked words and next sentences, to pretrain a backbone (Devlin et al., 2019, section 3.1)."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.model.encoder import Embeddings, Layer, Pooler, Stack, initialise, whole_encoder
from minbert.model.packed import Packed
from minbert.spec.architecture import Architecture
from minbert.spec.stage import Dropout

WORDS_FIRST = {"position": 0.25, "token_type": 0.4}
"""Factors on the other embeddings, so that the word dominates a token's first state."""


class MaskedLanguageModel(nn.Module):
    """The encoder with a head for masked words and one for next sentences.

    The first is a linear map, GELU and norm, then a decoder that shares the word embeddings and
    has a bias; the second is linear, on the pooler's output. `encoder` has a backbone's state.
    """

    def __init__(self, arch: Architecture, dropout: Dropout) -> None:
        super().__init__()
        self.encoder = whole_encoder(arch, dropout)
        self.dense = nn.Linear(arch.hidden, arch.hidden)
        self.norm = nn.LayerNorm(arch.hidden, eps=arch.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(arch.vocab_size))
        self.follows = nn.Linear(arch.hidden, 1)
        initialise(self)

    def forward(self, batch: Packed, masked: Tensor) -> tuple[Tensor, Tensor]:
        """Return word logits [M, words] at tokens `masked` [M], and next-sentence logits [B]."""
        states = self.encoder(batch)
        hidden = states.index_select(0, masked)
        hidden = self.norm(F.gelu(self.dense(hidden)))
        words = cast(Embeddings, self.encoder.embeddings).word.weight
        pooled = cast(Pooler, self.encoder.pooler)(states.index_select(0, batch.first))
        return F.linear(hidden, words, self.bias), self.follows(pooled).squeeze(-1)


@torch.no_grad()
def mimetic(encoder: Stack, generator: torch.Generator | None = None) -> None:
    """Draw attention weights with W_q = W_k and W_o W_v = I, both orthogonal, in every layer.

    As in Trockman and Kolter (2023, mimetic initialisation; there the products are the identity
    plus noise): each token attends to the tokens most similar to it, such as the same word in the
    other sentence, and copies their state, as after many thousands of steps of training.
    """
    for layer in encoder.layers.values():
        attention = cast(Layer, layer).attention
        size = attention.output.in_features
        match, copy = (
            torch.nn.init.orthogonal_(torch.empty(size, size), generator=generator)
            for _ in range(2)
        )
        attention.qkv.weight.copy_(torch.cat([match, match, copy]))
        attention.output.weight.copy_(copy.T)
    embeddings = cast(Embeddings, encoder.embeddings)
    for name, factor in WORDS_FIRST.items():
        embeddings.get_submodule(name).get_parameter("weight").mul_(factor)
