"""Adapters: bottlenecks in the sublayers of a frozen encoder; their fusion."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.model.encoder import Layer, SharedEncoder, Sublayer
from minbert.model.layers import Linear

INSERTED = (".adapter.", ".qkv.lora_")
"""What the names of tensors that are not the backbone's contain."""
START = 0.01
"""Standard deviation of a bottleneck's first weights: it starts near the identity (section 3.6)."""


class Bottleneck(nn.Module):
    """x + up(GELU(down(x))), [T, H], `width` units between (Houlsby et al., 2019, section 2.1)."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.down = Linear(hidden, width)
        self.up = Linear(width, hidden)
        for linear in (self.down, self.up):
            nn.init.normal_(linear.weight, std=START)
            nn.init.zeros_(linear.bias)

    def change(self, hidden: Tensor) -> Tensor:
        return self.up(F.gelu(self.down(hidden)))

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.change(hidden)


class Fusion(nn.Module):
    """Adds a mixture of what frozen adapters would add (Pfeiffer et al., 2021, section 3.2).

    For each token the query is the sublayer's output; keys and values are the adapters' changes
    to it; their softmax weights mix the values: [T, H] to [T, H]. There is no temperature and no
    dropout. Keys have no bias: it would add the same to the scores of all adapters.

    q . (K c) is (K^T q) . c, and a sum of w V c is V times a sum of w c; so each of the three maps
    is applied once, however many adapters there are. Once `attention` is a number, the weights of
    all tokens are added to it.
    """

    attention: Any = None

    def __init__(self, hidden: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.adapters: Any = nn.ModuleList(Bottleneck(hidden, width) for width in widths)
        self.adapters.requires_grad_(False)
        self.query = Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.value = Linear(hidden, hidden, bias=False)
        nn.init.normal_(self.query.weight, std=0.02)
        nn.init.zeros_(self.query.bias)
        nn.init.normal_(self.key.weight, std=0.02)
        with torch.no_grad():  # almost the identity, as in the authors' code
            self.value.weight.fill_(1e-6).fill_diagonal_(1.0)

    def forward(self, hidden: Tensor) -> Tensor:
        changes = torch.stack([adapter.change(hidden) for adapter in self.adapters])  # [n, T, H]
        towards = self.query(hidden) @ self.key.weight.to(hidden.dtype)
        weights = torch.einsum("th,nth->nt", towards, changes).softmax(0)  # [n, T]
        if self.attention is not None:
            self.attention = self.attention + weights.double().sum(1)
        mixed = torch.einsum("nt,nth->th", weights, changes)
        return hidden + self.value(mixed)


def sublayers(encoder: SharedEncoder) -> Iterator[tuple[str, Sublayer]]:
    """Yield the name and module of each sublayer, from the bottom up, attention first."""
    for name, module in encoder.named_modules():
        if isinstance(module, Layer):
            yield f"{name}.attention", module.attention
            yield f"{name}.feed_forward", module.feed_forward


def add_adapters(encoder: SharedEncoder, width: int) -> None:
    """Freeze `encoder`; give each of its sublayers a bottleneck of `width` units."""
    encoder.requires_grad_(False)
    for _, sublayer in sublayers(encoder):
        sublayer.adapter = Bottleneck(encoder.hidden, width)


def add_fusion(encoder: SharedEncoder, widths: Sequence[int]) -> None:
    """Freeze `encoder`; give each of its sublayers a fusion of new adapters."""
    encoder.requires_grad_(False)
    for _, sublayer in sublayers(encoder):
        sublayer.adapter = Fusion(encoder.hidden, widths)


def adapter_widths(state: Mapping[str, Tensor]) -> list[int]:
    """Return the widths of a stage's adapters, or of those that it fused, in order; none: []."""
    first = re.compile(r"layers\.0\.attention\.adapter\..*down\.weight$")
    names = sorted(filter(first.search, state), key=lambda name: (len(name), name))
    return [len(state[name]) for name in names]


def fused(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the adapters of stages, from their `model.safetensors`, as those of one fusion."""
    return {
        name.replace(".adapter.", f".adapter.adapters.{number}."): tensor
        for number, state in enumerate(states)
        for name, tensor in state.items()
        if ".adapter." in name
    }


def without_backbone(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a model's `state` that are not its frozen backbone's."""
    return {
        name: tensor
        for name, tensor in state.items()
        if not name.startswith("encoder.") or any(part in name for part in INSERTED)
    }
