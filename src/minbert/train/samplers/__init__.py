"""Samplers: which rows of which tasks make up each step of an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import torch
from torch import Tensor

from minbert.grid.spec import StageSpec

Step = list[tuple[str, Tensor]]
"""One optimiser step: (task, row numbers int64 [B]) for each batch in it."""


class EpochSampler(Protocol):
    """Draws the steps of one epoch after another from the generator it was given."""

    steps: int
    """Steps an epoch."""

    generator: torch.Generator
    """What it draws from; an epoch follows from the generator's state at its start."""

    def __init__(
        self, spec: StageSpec, sizes: Mapping[str, int], generator: torch.Generator
    ) -> None: ...

    def epoch(self) -> Iterator[Step]:
        """Yield the next epoch's `steps` steps; every epoch is drawn anew."""
        ...


def draw(size: int, count: int, generator: torch.Generator) -> Tensor:
    """Return `count` row numbers below `size`: whole fresh permutations, then a part of one.

    No row comes twice before every row has come once (sampling without replacement).
    """
    whole, rest = divmod(count, size)
    parts = [torch.randperm(size, generator=generator) for _ in range(whole)]
    if rest:
        parts.append(torch.randperm(size, generator=generator)[:rest])
    return torch.cat(parts)
