"""Dropout, and layers that compute in their input's precision, beside weights in fp32.

Dropout (Srivastava et al., 2014) is from 16 random bits per entry on a CPU. In bf16 everything from
the embeddings to the last layer's output is bf16; weights, their gradients and what the optimiser
keeps stay fp32.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16


def kept_share(p: float) -> float:
    """Return the probability with which `dropout_mask` keeps an entry: 1 - `p`, to 1/65536."""
    return 1 - min(round(p * LEVELS), LEVELS - 1) / LEVELS


def dropout_mask(shape: torch.Size, p: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw 0 with probability `p`, rounded to a multiple of 1/65536, and 1 elsewhere, on a CPU."""
    # torch would draw a whole number per entry: longer than the layers around it take.
    count = shape.numel()
    # The whole range: torch's default one leaves the highest bit out.
    bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    kept = torch.empty(count, dtype=dtype)
    lost = round((1 - kept_share(p)) * LEVELS)
    torch.ge(bits.view(torch.int16)[:count], lost - LEVELS // 2, out=kept)
    return kept.view(shape)


def apply_mask(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return `x` with the entries zeroed where a `dropout_mask`, if any, is 0."""
    return x if mask is None else x * mask


class Dropout(nn.Module):
    """In training, zeroes entries with probability `p`, and divides others by `kept_share`."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor, beside: Tensor | None = None) -> Tensor:
        """Return `x` after dropout, added to what is `beside` it, if given."""
        if not self.training or self.p == 0.0 or x.device.type != "cpu":
            left = F.dropout(x, self.p, self.training)
            return left if beside is None else beside + left
        mask, factor = dropout_mask(x.shape, self.p, x.dtype), 1 / kept_share(self.p)
        if beside is None:
            return (x * mask).mul_(factor)
        return torch.addcmul(beside, x, mask, value=factor)


class _Rounded(torch.autograd.Function):
    """A weight as its copy in another dtype; gradients go to the weight, in the weight's dtype."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, copy: Tensor) -> Tensor:
        ctx.dtype = weight.dtype
        return copy.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.to(ctx.dtype), None


class Linear(nn.Linear):
    """A linear layer in its input's dtype, with a copy of its weight in it, made once a step."""

    _copy: Tensor
    _made_from: tuple[object, ...] = ()

    def forward(self, x: Tensor, outputs: slice = slice(None)) -> Tensor:
        """Return [..., out_features] of `x` [..., in_features], or the `outputs` alone."""
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        if x.dtype != weight.dtype:
            weight = _Rounded.apply(weight, self._rounded(x.dtype))
            bias = None if bias is None else bias.to(x.dtype)
        if outputs != slice(None):
            weight, bias = weight[outputs], None if bias is None else bias[outputs]
        return F.linear(x, weight, bias)

    @torch.no_grad()
    def _rounded(self, dtype: torch.dtype) -> Tensor:
        weight = self.weight
        made_from = dtype, weight.data_ptr(), weight._version
        if self._made_from != made_from:
            self._copy, self._made_from = weight.to(dtype), made_from
        return self._copy


class LayerNorm(nn.LayerNorm):
    """Layer normalisation (Ba et al., 2016) in its input's dtype; sums are fp32."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == self.weight.dtype or x.device.type == "cpu":  # whose kernel takes both
            return super().forward(x)
        weight = self.weight.to(x.dtype)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)
