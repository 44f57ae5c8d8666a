"""Masked language modelling, to pretrain a backbone (Devlin et al., 2019, section 3.1)."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.grid.architecture import Architecture
from minbert.grid.spec import Dropout
from minbert.model.encoder import Embeddings, initialise, whole_encoder
from minbert.model.packed import Packed


class MaskedLanguageModel(nn.Module):
    """The encoder and a head that names the word behind each mask.

    The head is a linear map, GELU and norm, then a decoder that is the word embeddings
    themselves, with a bias of its own. `encoder.state_dict()` is a backbone's state. Initial
    weights come from torch's default generator.
    """

    def __init__(self, arch: Architecture, dropout: Dropout) -> None:
        super().__init__()
        self.encoder = whole_encoder(arch, dropout)
        self.dense = nn.Linear(arch.hidden, arch.hidden)
        self.norm = nn.LayerNorm(arch.hidden, eps=arch.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(arch.vocab_size))
        initialise(self)

    def forward(self, batch: Packed, masked: Tensor) -> Tensor:
        """Return logits [M, vocabulary] at the tokens `masked`, int64 [M] indices into the batch.

        The vocabulary is wide and one token in seven is masked: logits elsewhere would be waste.
        """
        hidden = self.encoder(batch).index_select(0, masked)
        hidden = self.norm(F.gelu(self.dense(hidden)))
        words = cast(Embeddings, self.encoder.embeddings).word.weight
        return F.linear(hidden, words, self.bias)
