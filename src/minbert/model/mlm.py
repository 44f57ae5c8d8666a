"""Masked words and next sentences, to pretrain a backbone (Devlin et al., 2019, section 3.1)."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.grid.architecture import Architecture
from minbert.grid.spec import Dropout
from minbert.model.encoder import Embeddings, Pooler, initialise, whole_encoder
from minbert.model.packed import Packed


class MaskedLanguageModel(nn.Module):
    """The encoder, a head that names the word behind each mask, and one on the pooler.

    The latter tells whether a second sentence follows the first. The former is a linear map, GELU
    and norm, then a decoder that is the word embeddings themselves, with a bias of its own.
    `encoder.state_dict()` is a backbone's state. Initial weights come from torch's default
    generator.
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
        """Return word logits [M, vocabulary] at `masked`, and next-sentence logits [B].

        `masked` is int64 [M], indices into the batch's tokens: the vocabulary is wide and one
        token in seven is masked, so logits elsewhere would be waste. A next-sentence logit is
        above 0 where the second sentence is thought to follow the first.
        """
        states = self.encoder(batch)
        hidden = states.index_select(0, masked)
        hidden = self.norm(F.gelu(self.dense(hidden)))
        words = cast(Embeddings, self.encoder.embeddings).word.weight
        pooled = cast(Pooler, self.encoder.pooler)(states.index_select(0, batch.first))
        return F.linear(hidden, words, self.bias), self.follows(pooled).squeeze(-1)
