"""Outputs for whole splits: each distinct sequence encoded once, in batches of like lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from minbert.model.packed import Packed
from minbert.train.distributed import ALONE, Alone
from minbert.train.examples import Examples, Sequences

TOKENS_A_BATCH = {"cpu": 4096, "mps": 4096, "cuda": 65536}
"""Padded tokens a batch of evaluation, by type of device."""


def distinct(sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the distinct sequences [U], and for each row its place among them [N]."""
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
    """Yield positions in `lengths`, sorted by length, in batches of at most `tokens` padded."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for stop in range(1, len(order) + 1):
        full = stop == len(order) or lengths[order[stop]] * (stop + 1 - start) > tokens
        if full:
            yield order[start:stop]
            start = stop


@torch.no_grad()
def pool_all(
    pooled: Callable[[Packed], Tensor], examples: Examples, peers: Alone = ALONE
) -> Tensor:
    """Return the pooled embedding of every sequence of `examples`, float32 [sequences, H].

    The batches are shared out among `peers`, and all get all: the same bits as of one process.
    """
    sequences = examples.sequences
    rows, places = distinct(sequences)
    found: Tensor | None = None
    todo = batches(sequences.lengths[rows], TOKENS_A_BATCH[sequences.device.type])
    for number, batch in enumerate(todo):
        mine = number % peers.count == peers.rank
        if number and not mine:
            continue
        result = pooled(sequences.pack(rows[batch])).float()
        if found is None:
            # From the first batch, the shortest, which all encode: its width is everyone's.
            found = result.new_zeros(len(rows), result.shape[1])
        if mine:
            found[torch.from_numpy(batch).to(result.device)] = result
    if found is None:
        raise ValueError(f"no examples of task '{examples.task}' to encode")
    peers.sum([found])
    return found[torch.from_numpy(places).to(found.device)]
