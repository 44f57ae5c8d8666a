"""Gradients by task, their Gramian, and the one gradient that surgery makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

Gradients = Sequence[Tensor | None]


def gramian(gradients: Sequence[Gradients]) -> Tensor:
    """Return G [n, n], float32: the inner products of n gradients over the same parameters.

    A parameter that a task does not use (None) counts as zero in that task's inner products.
    """
    n = len(gradients)
    present = (g.device for row in gradients for g in row if g is not None)
    device = next(present, torch.device("cpu"))
    products: dict[tuple[int, int], Tensor] = {}
    for i in range(n):
        for j in range(i, n):
            terms = [
                torch.dot(a.flatten().float(), b.flatten().float())
                for a, b in zip(gradients[i], gradients[j], strict=True)
                if a is not None and b is not None
            ]
            products[i, j] = torch.stack(terms).sum() if terms else torch.zeros((), device=device)
    return torch.stack(
        [torch.stack([products[min(i, j), max(i, j)] for j in range(n)]) for i in range(n)]
    )


def combine(
    parameters: Sequence[Parameter], gradients: Sequence[Gradients], weights: Tensor
) -> None:
    """Set each parameter's gradient to the sum over tasks of weight times gradient.

    A parameter that no task uses keeps `grad = None`: AdamW must neither move nor decay it.
    """
    for parameter, *parts in zip(parameters, *gradients, strict=True):
        terms = [w * g for w, g in zip(weights, parts, strict=True) if g is not None]
        parameter.grad = torch.stack(terms).sum(0).to(parameter.dtype) if terms else None


def cosines(gramian: Tensor) -> Tensor:
    """Return the cosines [n, n] between the gradients whose Gramian is given."""
    norms = gramian.diagonal().clamp(min=torch.finfo(gramian.dtype).tiny).sqrt()
    return gramian / norms[:, None] / norms[None, :]
