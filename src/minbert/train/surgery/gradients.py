"""Gradients by task, their Gramian, and the one gradient that surgery makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

Gradients = Sequence[Tensor | None]


class Surgery(NamedTuple):
    """What a step's surgery saw, `products` [P, n, n], and its `weights` [n] of the gradients."""

    products: Tensor
    weights: Tensor


def inner_products(gradients: Sequence[Gradients]) -> Tensor:
    """Return [P, n, n], float32: the inner products of n gradients, parameter by parameter.

    Their sum over the P parameters is the Gramian. A parameter that a task does not use (None)
    counts as zero in that task's inner products.
    """
    n = len(gradients)
    present = (g.device for row in gradients for g in row if g is not None)
    zero = torch.zeros((), device=next(present, torch.device("cpu")))
    terms: dict[tuple[int, int], list[Tensor]] = {(i, j): [] for i in range(n) for j in range(i, n)}
    # Parameter by parameter, so that all products are made while its gradients are in the cache.
    for of_parameter in zip(*gradients, strict=True):
        for (i, j), products in terms.items():
            a, b = of_parameter[i], of_parameter[j]
            products.append(zero if a is None or b is None else _inner(a, b))
    stacked = {pair: torch.stack(products) for pair, products in terms.items()}
    return torch.stack(
        [torch.stack([stacked[min(i, j), max(i, j)] for j in range(n)], -1) for i in range(n)], -2
    )


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product of two dense gradients, or of two by rows of an embedding."""
    if not a.is_sparse:
        return torch.dot(a.flatten().float(), b.flatten().float())
    a, b = a.coalesce(), b.coalesce()
    rows, others = a.indices()[0], b.indices()[0]
    place = torch.searchsorted(others, rows).clamp_(max=len(others) - 1)
    both = others[place] == rows
    return torch.dot(a.values()[both].flatten(), b.values()[place[both]].flatten())


def combine(
    parameters: Sequence[Parameter], gradients: Sequence[Gradients], weights: Tensor
) -> None:
    """Set each parameter's gradient to the sum over tasks of weight times gradient.

    The tasks' dense gradients are used up. A parameter that no task uses keeps `grad = None`:
    AdamW must neither move nor decay it.
    """
    for parameter, *parts in zip(parameters, *gradients, strict=True):
        total: Tensor | None = None
        for weight, gradient in zip(weights, parts, strict=True):
            if gradient is None:
                continue
            if gradient.is_sparse:
                scaled = _scaled(gradient, weight)
                total = scaled if total is None else total + scaled
            elif total is None:
                total = gradient.mul_(weight)
            else:
                total.addcmul_(gradient, weight.to(gradient.dtype))
        parameter.grad = total


def _scaled(gradient: Tensor, weight: Tensor) -> Tensor:
    """Return a gradient by rows times a number, its rows named once."""
    gradient = gradient.coalesce()
    values = gradient.values() * weight
    return torch.sparse_coo_tensor(
        gradient.indices(), values, gradient.shape, is_coalesced=True, check_invariants=False
    )


def cosines(gramian: Tensor) -> Tensor:
    """Return the cosines [n, n] between the gradients whose Gramian is given."""
    norms = gramian.diagonal().clamp(min=torch.finfo(gramian.dtype).tiny).sqrt()
    return gramian / norms[:, None] / norms[None, :]
