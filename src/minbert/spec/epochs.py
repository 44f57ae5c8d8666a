"""How many examples and steps an epoch has under each sampler. Knows no torch: plans use it too."""

from collections.abc import Mapping
from typing import NamedTuple

from minbert.spec.stage import Sampler, StageSpec


class Epoch(NamedTuple):
    """The optimiser steps of an epoch, and how many examples of each task it draws, or about so."""

    steps: int
    examples: dict[str, int]


def epoch_of(spec: StageSpec, sizes: Mapping[str, int]) -> Epoch:
    """Return an epoch; `sizes` has the number of training examples of each trained task.

    A pass over each task decides, or `sampler.steps`. Of tasks in one step with unequal batch sizes
    the smallest batch's task has as many examples as a pass over the smallest task, the others in
    proportion. `alternating` has a step for each of these batches, and as many for each task.
    """
    sampler = spec.sampler
    batch = {task: spec.tasks[task].batch_size for task in sizes}
    drawn = {task: pass_over(size, sampler) for task, size in sizes.items()}
    if sampler.name in ("unified", "alternating"):
        tasks = len(sizes) if sampler.name == "alternating" else 1
        smallest = min(batch.values())
        passed = sampler.examples or min(drawn.values())
        if sampler.steps:
            passed = -(-sampler.steps // tasks) * smallest
        drawn = {task: passed * size // smallest for task, size in batch.items()}
        return Epoch(-(-passed // smallest) * tasks, drawn)
    steps = {task: -(-count // batch[task]) for task, count in drawn.items()}
    if sampler.name == "recycled":  # one pass over the largest task, full batches of the others
        largest = max(sizes, key=lambda task: sizes[task])
        number = sampler.steps or steps[largest]
        full = {task: number * batch[task] for task in sizes}
        return Epoch(number, full if sampler.steps else full | {largest: drawn[largest]})
    if sampler.steps:  # divided among the tasks as a pass would divide them
        whole = sum(steps.values())
        steps = {task: max(1, round(sampler.steps * n / whole)) for task, n in steps.items()}
        drawn = {task: count * batch[task] for task, count in steps.items()}
    return Epoch(sum(steps.values()), drawn)


def pass_over(size: int, sampler: Sampler) -> int:
    """Return the examples of a pass over a task of `size` examples."""
    size = max(1, round((sampler.share or 1) * size))
    return min(size, sampler.examples or size)
