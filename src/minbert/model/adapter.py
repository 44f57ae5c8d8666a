"""What is inserted into a frozen encoder: bottlenecks in its sublayers, their fusion, LoRA."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.model.encoder import SharedEncoder, Sublayer
from minbert.model.layers import Linear

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


class LowRank(nn.Module):
    """x to `scale` up(down(x)), [T, H] to [T, H], of rank `rank`; 0 at the start (section 4.1)."""

    def __init__(self, hidden: int, rank: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.down = Linear(hidden, rank, bias=False)
        self.up = Linear(rank, hidden, bias=False)
        # As in the authors' library.
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.down(x)) * self.scale


class LoRALinear(Linear):
    """An attention's map to queries, keys and values, [T, H] to [T, 3H], changed in two of them."""

    def __init__(self, qkv: Linear, rank: int, scale: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = qkv.in_features, qkv.out_features
        self.weight, self.bias = qkv.weight, qkv.bias
        self.lora_query = LowRank(self.in_features, rank, scale)
        self.lora_value = LowRank(self.in_features, rank, scale)

    def forward(self, x: Tensor, outputs: slice = slice(None)) -> Tensor:
        found = super().forward(x, outputs)
        hidden = self.in_features
        if outputs.start is None:
            found[..., :hidden] += self.lora_query(x)
        if outputs.stop is None:
            found[..., -hidden:] += self.lora_value(x)
        return found


def sublayers(encoder: SharedEncoder) -> Iterator[tuple[str, Sublayer]]:
    """Yield the name and module of each sublayer, from the bottom up, attention first."""
    for name, module in encoder.named_modules():
        if isinstance(module, Sublayer):
            yield name, module
