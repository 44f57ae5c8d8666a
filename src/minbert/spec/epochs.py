"""How many examples and steps an epoch has under each sampler. Knows no torch, so plans use it too.

`sizes` has the number of training examples of each trained task.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from minbert.spec.stage import StageSpec


class Epoch(NamedTuple):
    """The optimiser steps of an epoch, and how many examples of each task it draws."""

    steps: int
    examples: dict[str, int]


def sequential(spec: StageSpec, sizes: Mapping[str, int]) -> Epoch:
    """One pass over each task, or `sampler.examples` of it, with one batch per step."""
    cap = spec.sampler.examples
    drawn = {task: min(size, cap) if cap else size for task, size in sizes.items()}
    return Epoch(sum(-(-n // spec.tasks[task].batch_size) for task, n in drawn.items()), drawn)


def recycled(spec: StageSpec, sizes: Mapping[str, int]) -> Epoch:
    """One pass over the largest task, or `sampler.examples` of it; full batches of the others."""
    largest = max(sizes, key=lambda task: sizes[task])
    passed = min(spec.sampler.examples or sizes[largest], sizes[largest])
    steps = -(-passed // spec.tasks[largest].batch_size)
    drawn = {task: steps * spec.tasks[task].batch_size for task in sizes}
    return Epoch(steps, drawn | {largest: passed})


def unified(spec: StageSpec, sizes: Mapping[str, int]) -> Epoch:
    """`sampler.examples` of each task, or as many as the smallest has.

    With unequal batch sizes that is the number of the smallest batch's task; the others' are in
    proportion.
    """
    batch = {task: spec.tasks[task].batch_size for task in sizes}
    passed, smallest = spec.sampler.examples or min(sizes.values()), min(batch.values())
    drawn = {task: passed * size // smallest for task, size in batch.items()}
    return Epoch(-(-passed // smallest), drawn)


EPOCHS: dict[str, Callable[[StageSpec, Mapping[str, int]], Epoch]] = {
    "sequential": sequential,
    "recycled": recycled,
    "unified": unified,
}
"""What each sampler draws, by its name in `sampler.name`."""
