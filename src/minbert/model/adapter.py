"""Houlsby adapters: bottlenecks in the sublayers of a frozen encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from minbert.model.encoder import Attention, FeedForward, Layer
from minbert.model.sharing import SharedEncoder

START = 0.01
"""Standard deviation of a bottleneck's first weights (Houlsby et al., 2019, section 3.6)."""


class Bottleneck(nn.Module):
    """x + up(GELU(down(x))), [T, H] to [T, H], `width` units between (Houlsby et al., 2019).

    It stands after a sublayer's output projection, before its skip connection (section 2.1, and
    adapter-fusion, section 4.2). Weights start small and biases at 0: near the identity.
    """

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.down = nn.Linear(hidden, width)
        self.up = nn.Linear(width, hidden)
        for linear in (self.down, self.up):
            nn.init.normal_(linear.weight, std=START)
            nn.init.zeros_(linear.bias)

    def change(self, hidden: Tensor) -> Tensor:
        """Return what the bottleneck adds to `hidden` [T, H]."""
        changed: Tensor = self.up(F.gelu(self.down(hidden)))
        return changed

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.change(hidden)


def sublayers(encoder: SharedEncoder) -> Iterator[tuple[str, Attention | FeedForward]]:
    """Yield the name and module of each sublayer, from the bottom up, attention first."""
    for name, module in encoder.named_modules():
        if isinstance(module, Layer):
            yield f"{name}.attention", module.attention
            yield f"{name}.feed_forward", module.feed_forward


def insert(encoder: SharedEncoder, make: Callable[[str], nn.Module]) -> None:
    """Freeze `encoder`, then put `make(name)` into each of its sublayers, by the sublayer's name.

    What is inserted keeps what `make` says of its own `requires_grad`.
    """
    encoder.requires_grad_(False)
    for name, sublayer in sublayers(encoder):
        sublayer.adapter = make(name)


def add_adapters(encoder: SharedEncoder, width: int) -> None:
    """Give the frozen `encoder` a bottleneck of `width` units in each of its sublayers.

    Weights are drawn from torch's default generator.
    """
    insert(encoder, lambda name: Bottleneck(encoder.hidden, width))


def without_backbone(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a model's `state` that are not its frozen backbone's."""
    return {
        name: tensor
        for name, tensor in state.items()
        if not name.startswith("encoder.") or ".adapter." in name
    }
