"""Layers that compute in their input's precision, beside weights in fp32.

In bf16 everything between the embeddings and the last layer's output is bf16: nothing changes dtype
on the way. Weights, their gradients and what the optimiser keeps stay fp32.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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
    """A linear layer that computes in its input's dtype.

    It keeps a copy of its weight in that dtype, and makes it anew when the weight has changed:
    once a step, however many passes a step has.
    """

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
