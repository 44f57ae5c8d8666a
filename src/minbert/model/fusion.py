"""AdapterFusion: in each sublayer, attention over the adapters of several tasks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from minbert.model.adapter import Bottleneck, sublayers
from minbert.model.encoder import SharedEncoder
from minbert.model.layers import Linear


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


def add_fusion(encoder: SharedEncoder, widths: Sequence[int]) -> None:
    """Freeze `encoder`; give each of its sublayers a fusion, which `load_adapters` fills."""
    encoder.requires_grad_(False)
    for _, sublayer in sublayers(encoder):
        sublayer.adapter = Fusion(encoder.hidden, widths)


def adapter_widths(state: Mapping[str, Tensor]) -> list[int]:
    """Return the widths of a stage's adapters, or of those that it fused, in order; none: []."""
    first = re.compile(r"layers\.0\.attention\.adapter\..*down\.weight$")
    names = sorted(filter(first.search, state), key=lambda name: (len(name), name))
    return [len(state[name]) for name in names]


def load_adapters(encoder: SharedEncoder, states: Sequence[Mapping[str, Tensor]]) -> None:
    """Copy each stage's adapters, from its `model.safetensors`, into the fusions of `encoder`."""
    ours = encoder.state_dict(prefix="encoder.")
    for number, state in enumerate(states):
        for name, tensor in state.items():
            if ".adapter." in name:
                ours[name.replace(".adapter.", f".adapter.adapters.{number}.")].copy_(tensor)
