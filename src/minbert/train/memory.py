"""How much of a batch is worked on at once, so that its activations fit into memory."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from minbert.grid.architecture import Architecture

SHARE = 0.4
"""Share of a job's part of the memory that activations may take."""

TOKEN = 20
"""Numbers that a layer keeps for the backward pass, a token and hidden unit."""

PAIR = 3
"""Numbers that it keeps for each pair of tokens and head: weights, what dropout left, factors."""

NUMBER = 4  # bytes of one of them

CGROUP = Path("/sys/fs/cgroup/memory.max")


def activation_bytes(arch: Architecture, lengths: np.ndarray) -> np.ndarray:
    """Estimate what training keeps for sequences of these lengths, bytes, like `lengths`."""
    tokens = lengths.astype(np.float64)
    linear = TOKEN * arch.hidden * arch.intermediate / (4 * arch.hidden)
    return arch.layers * NUMBER * tokens * (linear + PAIR * arch.heads * tokens)


def budget(device: torch.device, threads: int) -> float:
    """Return the bytes that activations may take, the same whenever this machine is asked.

    What is free at the moment would do no better and make results differ in their last bits. On a
    CPU the machine's memory (or the limit of its control group) is divided among as many jobs as
    have room on its cores; on a GPU it is what was free when the job began.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return 2 * SHARE * free
    jobs = max(1, (os.cpu_count() or 1) // threads)
    return SHARE * machine_memory() / jobs


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
    """Divide items of `sizes` (bytes), in order, into runs of at most `most`, or of one item."""
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
        f"out of memory at {place} ({sizes}), also in parts of {room / 2**20:.0f} MiB of "
        "activations. Lower 'batch_size' or 'max_length', run fewer jobs at once, or take a "
        f"smaller backbone. {error}"
    )
