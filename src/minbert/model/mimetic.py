"""Initial attention that looks for equal words: what a small encoder would learn last."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from minbert.model.encoder import Embeddings, Layer, Stack

WORDS_FIRST = {"position": 0.25, "token_type": 0.4}
"""Factors on the other embeddings, so that a word is most of what its first state holds."""


@torch.no_grad()
def mimetic(encoder: Stack, generator: torch.Generator | None = None) -> None:
    """Draw attention weights with W_q = W_k and W_o W_v = I, both orthogonal, in every layer.

    As in Trockman and Kolter (2023, mimetic initialisation; there the products are the identity
    plus noise): each token attends to the tokens most like it, so to its twin in the other
    sentence, and takes over their state. Pretrained weights have such products; from BERT's own
    start a small encoder needs many thousand steps to find them.
    """
    for layer in encoder.layers.values():
        attention = cast(Layer, layer).attention
        size = attention.output.in_features
        match, copy = (_orthogonal(size, generator) for _ in range(2))
        attention.qkv.weight.copy_(torch.cat([match, match, copy]))
        attention.output.weight.copy_(copy.T)
    embeddings = cast(Embeddings, encoder.embeddings)
    for name, factor in WORDS_FIRST.items():
        embeddings.get_submodule(name).get_parameter("weight").mul_(factor)


def _orthogonal(size: int, generator: torch.Generator | None) -> Tensor:
    return torch.nn.init.orthogonal_(torch.empty(size, size), generator=generator)
