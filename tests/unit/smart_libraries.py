"""SMART's penalty as two libraries compute it, on padded rows: what ours is held against."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from minbert.model.packed import Packed
from minbert.spec.stage import Smart

Divergence = Callable[[Tensor, Tensor], Tensor]


def on_padded_rows(
    model: Callable[[Tensor], Tensor], batch: Packed, noise: Tensor
) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Return `model` as a function of a move [B, L, H], and `noise` [T, H] as such."""
    real = torch.arange(batch.longest) < batch.lengths[:, None]
    padded = torch.zeros(*real.shape, noise.shape[1])
    padded[real] = noise
    return lambda move: model(move[real]), padded


def library(
    f: Callable[[Tensor], Tensor],
    apart: Divergence,
    noise: Tensor,
    smart: Smart,
    last: Divergence | None = None,
) -> Tensor:
    """Return the penalty as the authors' library has it; f takes a move [B, L, H].

    With `last`, that is the penalty's divergence, and `apart` that of the ascent alone.
    """
    clean = f(torch.zeros_like(noise))
    for _ in range(smart.ascents):
        noise = noise.detach().clone().requires_grad_()
        apart(f(noise), clean.detach()).backward(inputs=[noise])
        assert noise.grad is not None
        moved = noise + smart.step * noise.grad
        norm = torch.linalg.vector_norm(moved, ord=math.inf, dim=-1, keepdim=True)
        noise = (moved / (norm + 1e-6)).detach()
    return smart.weight * (last or apart)(f(noise), clean)


def kl_loss(output: Tensor, target: Tensor, reduction: str = "batchmean") -> Tensor:
    """Return KL(target || output) of softmaxes, as smart-pytorch has it."""
    return F.kl_div(output.log_softmax(-1), target.softmax(-1), reduction=reduction)


def sym_kl_loss(output: Tensor, target: Tensor) -> Tensor:
    return kl_loss(output, target.detach(), "sum") + kl_loss(target, output.detach(), "sum")
