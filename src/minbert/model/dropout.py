"""Dropout (Srivastava et al., 2014) from 16 random bits per entry, on a CPU."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEVELS = 1 << 16


def _lost(p: float) -> int:
    """Return how many of `LEVELS` values stand for a lost entry."""
    return min(round(p * LEVELS), LEVELS - 1)


def kept_share(p: float) -> float:
    """Return the probability with which `dropout_mask` keeps an entry: 1 - `p`, to 1/65536."""
    return 1 - _lost(p) / LEVELS


def dropout_mask(shape: torch.Size, p: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw 0 with probability `p` and 1 elsewhere, on a CPU.

    With 16 bits `p` is rounded to a multiple of 1/65536. torch would draw a whole number per entry,
    which takes longer than the layers around it.
    """
    count = shape.numel()
    # The whole range: torch's default one leaves the highest bit out.
    bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    kept = torch.empty(count, dtype=dtype)
    torch.ge(bits.view(torch.int16)[:count], _lost(p) - LEVELS // 2, out=kept)
    return kept.view(shape)


def apply_mask(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return `x` with the entries zeroed where a `dropout_mask`, if any, is 0."""
    return x if mask is None else x * mask


def dropout(x: Tensor, p: float) -> Tensor:
    """Return `x` with entries zeroed with probability `p` and the others divided by `kept_share`.

    So the mean is kept exactly.
    """
    if p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    return (x * dropout_mask(x.shape, p, x.dtype)).mul_(1 / kept_share(p))


class _AddLost(torch.autograd.Function):
    """x + dropout(change), in one pass each way; the factor is applied in full precision."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, change: Tensor, p: float) -> Tensor:
        mask = dropout_mask(change.shape, p, change.dtype)
        ctx.factor = 1 / kept_share(p)
        ctx.save_for_backward(mask)
        return torch.addcmul(x, change, mask, value=ctx.factor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (mask,) = ctx.saved_tensors
        return gradient, (gradient * mask).mul_(ctx.factor), None


def add_dropped(x: Tensor, change: Tensor, p: float) -> Tensor:
    """Return `x` plus `dropout(change, p)`, both of one shape and dtype."""
    if p == 0.0 or x.device.type != "cpu":
        return x + dropout(change, p)
    added: Tensor = _AddLost.apply(x, change, p)
    return added


class Dropout(nn.Module):
    """`dropout` with probability `p`, in training only."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x

    def add(self, x: Tensor, change: Tensor) -> Tensor:
        """Return `x` plus `change` after dropout."""
        return add_dropped(x, change, self.p) if self.training else x + change
