"""Outputs for whole splits: each distinct sequence encoded once, in batches of similar lengths."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from minbert.model.packed import Packed
from minbert.train.examples import Examples, Sequences

TOKENS_A_BATCH = {"cpu": 4096, "mps": 4096, "cuda": 65536}  # padded, in evaluation


def distinct(sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the distinct sequences [U], and each row's place among them [N]."""
    flat, types = sequences.flat.cpu().numpy(), sequences.types.cpu().numpy()
    spans = [slice(a, a + n) for a, n in zip(sequences.starts, sequences.lengths, strict=True)]
    texts = [flat[span].tobytes() + types[span].tobytes() for span in spans]
    place = {text: n for n, text in enumerate(dict.fromkeys(texts))}
    places = np.array([place[text] for text in texts], np.int64)
    return np.unique(places, return_index=True)[1], places


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
    if not len(rows):
        raise ValueError(f"no examples of task '{examples.task}' to encode")
    order = list(batches(sequences.lengths[rows], TOKENS_A_BATCH[sequences.device.type]))
    found = torch.cat([pooled(sequences.pack(rows[batch])).float() for batch in order])
    back = np.argsort(np.concatenate(order))[places]
    return found[torch.from_numpy(back).to(found.device)]
