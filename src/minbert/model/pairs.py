"""Features of a pair of sentence embeddings, for tasks that encode each sentence alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from minbert.grid.task_spec import Feature

FEATURES: dict[Feature, Callable[[Tensor, Tensor], Tensor]] = {
    "u": lambda u, v: u,
    "v": lambda u, v: v,
    "u*v": lambda u, v: u * v,
    "|u-v|": lambda u, v: (u - v).abs(),
}


def feature_width(features: Sequence[Feature], hidden: int) -> int:
    """Return the width of `join` for embeddings that are `hidden` wide."""
    return len(features) * hidden


def join(u: Tensor, v: Tensor, features: Sequence[Feature]) -> Tensor:
    """Return the `features` of `u` and `v` [B, H] side by side, [B, len(features) * H]."""
    return torch.cat([FEATURES[feature](u, v) for feature in features], dim=1)
