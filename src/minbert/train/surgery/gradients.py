"""Gradients by task: their Gramian, the gradient that surgery makes, the cosines recorded."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement

import torch
from torch import Tensor
from torch.nn import Parameter

Gradients = Sequence[Tensor | None]


def inner_products(gradients: Sequence[Gradients]) -> Tensor:
    """Return [P, n, n], float32: the Gramian of n gradients by parameter; None counts as zero."""
    device = next(g.device for row in gradients for g in row if g is not None)
    zero = torch.zeros((), device=device)
    # Parameter by parameter, so that its gradients are in the cache for all of their products.
    upper = [
        zero if a is None or b is None else dot(a, b)
        for of_parameter in zip(*gradients, strict=True)
        for a, b in combinations_with_replacement(of_parameter, 2)
    ]
    rows, columns = torch.triu_indices(len(gradients), len(gradients), device=device)
    found = zero.new_zeros(len(gradients[0]), len(gradients), len(gradients))
    found[:, rows, columns] = torch.stack(upper).view(len(found), -1)
    found[:, columns, rows] = found[:, rows, columns]
    return found


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product of two dense gradients, or of two sparse ones of an embedding."""
    if not a.is_sparse:
        return torch.dot(a.flatten().float(), b.flatten().float())
    a, b = a.coalesce(), b.coalesce()
    rows, others = a.indices()[0], b.indices()[0]
    place = torch.searchsorted(others, rows).clamp_(max=len(others) - 1)
    both = others[place] == rows
    return torch.dot(a.values()[both].flatten(), b.values()[place[both]].flatten())


def combine(
    parameters: Sequence[Parameter],
    gradients: Sequence[Gradients],
    weights: Tensor,
    mean: bool,
) -> None:
    """Set each parameter's gradient to the sum over tasks of weight times gradient, if any.

    With `mean`, that is divided by the tasks where all use it. Dense gradients are overwritten.
    """
    shares = weights / len(gradients)
    for parameter, *parts in zip(parameters, *gradients, strict=True):
        parameter.grad = None
        of_all = mean and not any(gradient is None for gradient in parts)
        for weight, gradient in zip(shares if of_all else weights, parts, strict=True):
            if gradient is None:
                continue
            if gradient.is_sparse:
                scaled = gradient.coalesce() * weight
                parameter.grad = scaled if parameter.grad is None else parameter.grad + scaled
            elif parameter.grad is None:
                parameter.grad = gradient.mul_(weight)
            else:
                parameter.grad.addcmul_(gradient, weight.to(gradient.dtype))


def _length(squares: Tensor) -> Tensor:
    return squares.clamp(min=torch.finfo(squares.dtype).tiny).sqrt()


GROUPS = 4  # of an encoder's layers, if it has that many
_LAYER = re.compile(r"\.layers\.(\d+)\.")


def cosine_rows(
    tasks: Sequence[str], products: Tensor, weights: Tensor, groups: Sequence[str]
) -> Iterator[tuple[str, str, float]]:
    """Yield (task or pair, metric, value) of a step of n `tasks` with surgery's `weights` [n].

    `products` [P, n, n] are those of `inner_products`.
    `gradient_cosine`: between two tasks' gradients, before surgery; `gradient_cosine/GROUP`: the
    same for a group of layers that all tasks use, where `groups` [P] has each shared parameter's.
    `sum_cosine` and `update_cosine`: between a task's gradient and the step's, before and after
    surgery.
    """
    whole = products.sum(0)
    yield from _pairs(tasks, whole, "gradient_cosine")
    for metric, step in (("sum_cosine", torch.ones_like(weights)), ("update_cosine", weights)):
        # Gradients J and the step w J, whose squared norm is w G w.
        of_step = whole @ step / _length(whole.diagonal()) / _length(step @ whole @ step)
        for task, value in zip(tasks, of_step.tolist(), strict=True):
            yield task, metric, value
    for group in dict.fromkeys(groups):
        of_group = products[[name == group for name in groups]].sum(0)
        if bool((of_group.diagonal() > 0).all()):
            yield from _pairs(tasks, of_group, f"gradient_cosine/{group}")


def _pairs(tasks: Sequence[str], gramian: Tensor, metric: str) -> Iterator[tuple[str, str, float]]:
    norms = _length(gramian.diagonal())
    found = (gramian / norms[:, None] / norms[None, :]).tolist()
    for (i, first), (j, second) in combinations(enumerate(tasks), 2):
        yield f"{first}-{second}", metric, found[i][j]


def layer_groups(names: Iterable[str], depth: int) -> list[str]:
    """Return the groups of parameters called `names`: `embeddings`, `layers_1-3` etc.

    They are alike in all models of so many layers.
    """
    size = -(-depth // GROUPS)
    found = []
    for name in names:
        if layer := _LAYER.search(name):
            first = int(layer[1]) // size * size + 1
            last = min(first + size - 1, depth)
            found.append(f"layer_{first}" if first == last else f"layers_{first}-{last}")
        else:
            found.append("embeddings" if ".embeddings." in name else "pooler")
    return found
