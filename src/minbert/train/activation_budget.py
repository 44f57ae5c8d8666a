"""How much memory a batch's activations may take, and how larger batches are divided."""

import os
from collections.abc import Iterator

import numpy as np
import torch
from torch.nn import Module

from minbert.spec.architecture import training_bytes
from minbert.train.device import machine_memory

SHARE = 0.4
"""Share of a job's part of the memory that activations may take."""

OF_STATE = 0.26
"""On a CPU they may take this share of the model's state: so a job peaks below 1.3 times that."""

PART = 0.45
"""Share of the budget for each part of a larger batch, which also holds the gradients so far."""

SMALL = 5 * 2**28
"""Bytes of state and activations together that a job on a CPU may take, however small its model."""


def activation_budget(device: torch.device, threads: int, module: Module) -> float:
    """Return the bytes that the activations of `module` may take.

    On a CPU the machine's memory is divided among as many jobs as its cores have room for. It is
    the same at every call on a machine, because how batches are divided decides the last bits of a
    result. On a GPU it is four fifths of what is free when the job begins.
    """
    if device.type == "cuda":
        return 2 * SHARE * torch.cuda.mem_get_info(device)[0]
    sizes = [(p.numel(), p.requires_grad) for p in module.parameters()]
    state = training_bytes(sum(n for n, _ in sizes), sum(n for n, trained in sizes if trained))
    jobs = max(1, (os.cpu_count() or 1) // threads)
    return min(SHARE * machine_memory() / jobs, max(OF_STATE * state, SMALL - state))


def divide(sizes: np.ndarray, budget: float) -> Iterator[slice]:
    """Divide items of `sizes` (bytes) that take more than the `budget` together.

    Each slice has one item, or takes at most `PART` of it: two parts of 16 sentences cost BERT-base
    11 % more time, so a batch that fits stays whole.
    """
    budget *= 1 if sizes.sum() <= budget else PART
    start, total = 0, 0.0
    for place, size in enumerate(sizes):
        if place > start and total + size > budget:
            yield slice(start, place)
            start, total = place, 0.0
        total += size
    yield slice(start, len(sizes))
