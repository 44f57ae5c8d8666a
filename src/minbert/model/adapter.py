"""Houlsby adapters: bottlenecks in the sublayers of a frozen encoder."""

from collections.abc import Iterator, Mapping

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


def without_backbone(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a model's `state` that are not its frozen backbone's."""
    return {
        name: tensor
        for name, tensor in state.items()
        if not name.startswith("encoder.") or any(part in name for part in INSERTED)
    }
