"""Outputs for whole splits: each distinct sequence encoded once, in batches of similar lengths."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from minbert.model.packed import Packed
from minbert.train.examples import Examples, Sequences

TOKENS_A_BATCH = {"cpu": 4096, "mps": 4096, "cuda": 65536}  # padded, in evaluation


def distinct(sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the distinct sequences [U], and each row's place among them [N]."""
    flat, types = sequences.flat.cpu().numpy(), sequences.types.cpu().numpy()
    seen: dict[bytes, int] = {}
    places = np.empty(len(sequences), np.int64)
    rows: list[int] = []
    for row, (start, length) in enumerate(zip(sequences.starts, sequences.lengths, strict=True)):
        span = slice(start, start + length)
        text = flat[span].tobytes() + types[span].tobytes()
        place = seen.setdefault(text, len(rows))
        if place == len(rows):
            rows.append(row)
        places[row] = place
    return np.array(rows, np.int64), places


def batches(lengths: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Yield positions in `lengths`, sorted by length, in batches of at most `tokens`, padded."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or lengths[order[stop]] * (stop + 1 - start) > tokens:
            yield order[start:stop]
            start = stop


@torch.no_grad()
def pool_all(pooled: Callable[[Packed], Tensor], examples: Examples) -> Tensor:
    """Return the pooled embedding of every sequence of `examples`, float32 [sequences, H]."""
    sequences = examples.sequences
    rows, places = distinct(sequences)
    found: Tensor | None = None
    for batch in batches(sequences.lengths[rows], TOKENS_A_BATCH[sequences.device.type]):
        result = pooled(sequences.pack(rows[batch])).float()
        if found is None:
            found = result.new_zeros(len(rows), result.shape[1])
        found[torch.from_numpy(batch).to(result.device)] = result
    if found is None:
        raise ValueError(f"no examples of task '{examples.task}' to encode")
    return found[torch.from_numpy(places).to(found.device)]


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Return a context in which models on `device` compute in `precision`: fp32 or bf16."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()
