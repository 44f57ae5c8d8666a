"""What is recorded of a step's surgery: cosines between gradients, whole and by group of layers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from minbert.train.surgery.gradients import Surgery, cosines

GROUPS = 4
"""Groups that an encoder's layers are taken together in, where it has as many."""

_LAYER = re.compile(r"\.layers\.(\d+)\.")


def cosine_rows(
    tasks: Sequence[str], surgery: Surgery, groups: Sequence[str]
) -> Iterator[tuple[str, str, float]]:
    """Yield (task or pair, metric, value) of a step of `tasks`.

    `gradient_cosine`: between two tasks' gradients, before surgery; `gradient_cosine/GROUP` the
    same of a group of layers, which `groups` [P] has for each shared parameter. `sum_cosine` and
    `update_cosine`: between a task's gradient and the step's, the plain sum before surgery, and
    what surgery makes of it. A group that some task does not use has none.
    """
    products, weights = surgery
    whole = products.sum(0)
    yield from _pairs(tasks, whole, "gradient_cosine")
    for metric, step in (("sum_cosine", torch.ones_like(weights)), ("update_cosine", weights)):
        for task, value in zip(tasks, _with_step(whole, step).tolist(), strict=True):
            yield task, metric, value
    for group in dict.fromkeys(groups):
        of_group = products[[place for place, name in enumerate(groups) if name == group]].sum(0)
        if bool((of_group.diagonal() > 0).all()):
            yield from _pairs(tasks, of_group, f"gradient_cosine/{group}")


def _pairs(tasks: Sequence[str], gramian: Tensor, metric: str) -> Iterator[tuple[str, str, float]]:
    found = cosines(gramian).tolist()
    for i, first in enumerate(tasks):
        for j in range(i + 1, len(tasks)):
            yield f"{first}-{tasks[j]}", metric, found[i][j]


def _with_step(gramian: Tensor, weights: Tensor) -> Tensor:
    """Return the cosines [n] of n gradients J with the step w J, whose squared norm is w G w."""
    weights = weights.to(gramian.dtype)
    tiny = torch.finfo(gramian.dtype).tiny
    norms = gramian.diagonal().clamp(min=tiny).sqrt()
    return gramian @ weights / norms / (weights @ gramian @ weights).clamp(min=tiny).sqrt()


def layer_groups(module: Module, shared: Sequence[Parameter]) -> list[str]:
    """Return the group that each of the `shared` parameters of `module` is in, by its name.

    `embeddings`, `layers_1-3` and so on from the bottom up, `pooler`; `other` for what has none
    of these names. Groups are of all layers of the module, shared or not, so that those of models
    that share less are called alike.
    """
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    found = [int(match[1]) for name in names.values() if (match := _LAYER.search(name))]
    layers = max(found, default=0) + 1
    return [_group(names[id(parameter)], layers) for parameter in shared]


def _group(name: str, layers: int) -> str:
    match = _LAYER.search(name)
    if match is None:
        return next((part for part in ("embeddings", "pooler") if f".{part}." in name), "other")
    size = -(-layers // GROUPS)
    first = int(match[1]) // size * size + 1
    last = min(first + size - 1, layers)
    return f"layer_{first}" if first == last else f"layers_{first}-{last}"
