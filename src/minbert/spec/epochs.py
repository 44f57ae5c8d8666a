"""How many examples and steps an epoch has under each sampler. Knows no torch, so plans use it too.

`sizes` has the number of training examples of each trained task.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from minbert.spec.stage import StageSpec


class Epoch(NamedTuple):
    """The optimiser steps of an epoch, and how many examples of each task it draws (or is
    expected to)."""

    steps: int
    examples: dict[str, int]


def sequential(spec: StageSpec, sizes: Mapping[str, int]) -> Epoch:
    """One pass over each task, with one batch per step.

    `sampler.steps` are divided among the tasks as a pass would divide them.
    """
    batch = {task: spec.tasks[task].batch_size for task in sizes}
    drawn = {task: _pass(spec, size) for task, size in sizes.items()}
    steps = {task: -(-n // batch[task]) for task, n in drawn.items()}
    if given := spec.sampler.steps:
        whole = sum(steps.values())
        steps = {task: max(1, round(given * n / whole)) for task, n in steps.items()}
        drawn = {task: n * batch[task] for task, n in steps.items()}
    return Epoch(sum(steps.values()), drawn)


def recycled(spec: StageSpec, sizes: Mapping[str, int]) -> Epoch:
    """One pass over the largest task; full batches of the others."""
    largest = max(sizes, key=lambda task: sizes[task])
    passed = _pass(spec, sizes[largest])
    steps = spec.sampler.steps or -(-passed // spec.tasks[largest].batch_size)
    drawn = {task: steps * spec.tasks[task].batch_size for task in sizes}
    return Epoch(steps, drawn if spec.sampler.steps else drawn | {largest: passed})


def unified(spec: StageSpec, sizes: Mapping[str, int]) -> Epoch:
    """`sampler.examples` of each task, or as many as a pass over the smallest has.

    With unequal batch sizes that is the number of the smallest batch's task; the others' are in
    proportion. `alternating` has a step for each batch, and divides `sampler.steps` evenly among
    the tasks, rounded up.
    """
    tasks = len(sizes) if spec.sampler.name == "alternating" else 1
    batch = {task: spec.tasks[task].batch_size for task in sizes}
    smallest = min(batch.values())
    passed = spec.sampler.examples or _pass(spec, min(sizes.values()))
    if spec.sampler.steps:
        passed = -(-spec.sampler.steps // tasks) * smallest
    drawn = {task: passed * size // smallest for task, size in batch.items()}
    return Epoch(-(-passed // smallest) * tasks, drawn)


def temperature(spec: StageSpec, sizes: Mapping[str, int]) -> Epoch:
    """As many steps as a pass over each task; the examples are those expected of each.

    Of `annealed` that is the mean over the epochs.
    """
    exponents = [annealed_exponent(epoch, spec.epochs) for epoch in range(1, spec.epochs + 1)]
    if spec.sampler.temperature:
        exponents = [1 / spec.sampler.temperature]
    steps = sequential(spec, sizes).steps
    by_epoch = [shares(spec, sizes, exponent) for exponent in exponents]
    means = {task: sum(found[task] for found in by_epoch) / len(by_epoch) for task in sizes}
    drawn = {task: steps * share * spec.tasks[task].batch_size for task, share in means.items()}
    return Epoch(steps, {task: round(n) for task, n in drawn.items()})


def annealed_exponent(epoch: int, epochs: int) -> float:
    """Return 1 for the first `epoch` (from 1), 0.2 for the last, and what is between for others."""
    return 1 - 0.8 * (epoch - 1) / max(1, epochs - 1)


def shares(spec: StageSpec, sizes: Mapping[str, int], exponent: float) -> dict[str, float]:
    """Return each task's share of the steps: in proportion to the size of its pass ** exponent."""
    powers = {task: _pass(spec, size) ** exponent for task, size in sizes.items()}
    return {task: power / sum(powers.values()) for task, power in powers.items()}


def _pass(spec: StageSpec, size: int) -> int:
    """Return the examples of a pass over a task of `size` examples."""
    share, most = spec.sampler.share, spec.sampler.examples
    size = max(1, round(share * size)) if share else size
    return min(size, most) if most else size


EPOCHS: dict[str, Callable[[StageSpec, Mapping[str, int]], Epoch]] = {
    "sequential": sequential,
    "recycled": recycled,
    "unified": unified,
    "alternating": unified,
    "temperature": temperature,
    "annealed": temperature,
}
"""What each sampler draws, by its name in `sampler.name`."""
