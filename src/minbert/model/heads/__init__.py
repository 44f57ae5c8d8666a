"""From a pooled embedding, or features of two of them, to a task's logits."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from minbert.spec.task import Feature

FEATURES: dict[Feature, Callable[[Tensor, Tensor], Tensor]] = {
    "u": lambda u, v: u,
    "v": lambda u, v: v,
    "u*v": lambda u, v: u * v,
    "|u-v|": lambda u, v: (u - v).abs(),
}


def join(u: Tensor, v: Tensor, features: Sequence[Feature]) -> Tensor:
    """Return the `features` of `u` and `v` [B, H] side by side, [B, len(features) * H]."""
    return torch.cat([FEATURES[feature](u, v) for feature in features], dim=1)
