"""How much of a batch is worked on at once, so that its activations fit into memory."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from minbert.grid.architecture import NUMBER

SHARE = 0.4
"""Share of a job's part of the memory that activations may take."""

OF_STATE = 0.26
"""On a CPU they may take this share of the model's state: so a job peaks below 1.3 times that."""

PART = 0.45
"""Share of that room for a part of a larger batch: the gradients of the parts before are there too.

A batch that fits stays whole: two parts of 16 sentences cost BERT-base 11 % more time.
"""

SMALL = 5 * 2**28
"""Bytes of state and activations together that a job on a CPU may take whatever its model."""

CGROUP = Path("/sys/fs/cgroup/memory.max")


def state_bytes(module: Module) -> int:
    """Return the bytes of a model's weights, and of gradients and moments of those trained."""
    return sum(NUMBER * p.numel() * (4 if p.requires_grad else 1) for p in module.parameters())


def budget(device: torch.device, threads: int, state: int) -> float:
    """Return the bytes that activations may take.

    On a CPU the machine's memory (or the limit of its control group) is divided among as many jobs
    as have room on its cores, and a model whose `state` has so many bytes needs no more than a
    share of them: the same whenever this machine is asked, as parts of batches decide last bits.
    On a GPU it is four fifths of what is free as the job begins.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return 2 * SHARE * free
    jobs = max(1, (os.cpu_count() or 1) // threads)
    return min(SHARE * machine_memory() / jobs, max(OF_STATE * state, SMALL - state))


def machine_memory() -> int:
    """Return the bytes of memory that this process may use."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = CGROUP.read_text().strip() if CGROUP.exists() else "max"
    return min(whole, int(limit)) if limit != "max" else whole


def give_back() -> None:
    """Give memory that was freed back to the system, where the C library (glibc) holds on to it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def divide(sizes: np.ndarray, most: float) -> Iterator[slice]:
    """Divide items of `sizes` (bytes), in order, if all of them take more than `most`.

    Runs are of one item, or of at most `PART` of `most`.
    """
    most *= 1 if sizes.sum() <= most else PART
    start, total = 0, 0.0
    for place, size in enumerate(sizes):
        if place > start and total + size > most:
            yield slice(start, place)
            start, total = place, 0.0
        total += size
    yield slice(start, len(sizes))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` says that there is no memory left, on whichever device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def too_large(
    batch: Sequence[tuple[str, Tensor]], place: str, room: float, error: BaseException
) -> str:
    """Return what to say of a step's batches (task, rows) that do not fit into `room` bytes."""
    sizes = ", ".join(f"{len(rows)} of {task}" for task, rows in batch)
    return (
        f"out of memory at {place} ({sizes}), also in parts of {PART * room / 2**20:.0f} MiB of "
        "activations. Lower 'batch_size' or 'max_length', run fewer jobs at once, or take a "
        f"smaller backbone. {error}"
    )
