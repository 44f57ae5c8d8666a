"""Batches of fixed shapes, so that an accelerator's work on one can be recorded and played again.

Filler rows make a batch's numbers of tokens and rows round. Rows never see each other, and what
comes of the fillers is cut off before a head reads it: losses and gradients are the batch's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from minbert.model.packed import Packed

if TYPE_CHECKING:
    from minbert.train.examples import Examples

LENGTH = 16
"""The least step in which the longest row is rounded up, in tokens."""

TOKENS = 64
"""The least step in which all tokens of a batch are."""


class Shape(NamedTuple):
    """Tokens and rows of a batch, its fillers among them, and the most tokens of a row."""

    tokens: int
    rows: int
    longest: int


def shape_of(lengths: np.ndarray, most: int) -> Shape:
    """Return the shape for rows of these lengths [R], each from 2 to `most` tokens.

    Tokens and the longest row are rounded up in steps of a power of two, a sixteenth to an eighth
    of them: few shapes for many batches, little waste. There are as many fillers as can take what
    is missing.
    """
    total, longest = int(lengths.sum()), int(lengths.max())
    longest = min(_round_up(longest, _step(longest, LENGTH)), most)
    step = _step(total, TOKENS)
    # At least one token each, and together at most `fillers + step - 1`.
    fillers = max(1, -(-(step - 1) // (longest - 1)))
    return Shape(_round_up(total + fillers, step), len(lengths) + fillers, longest)


def _step(number: int, least: int) -> int:
    """Return the largest power of two up to an eighth of `number`, or `least`, one too."""
    return max(least, 1 << (max(number // 8, 1).bit_length() - 1))


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def filled(lengths: np.ndarray, shape: Shape) -> np.ndarray:
    """Return `lengths` [R] and after them those of the fillers, [`shape.rows`], as equal as can be.

    They add up to `shape.tokens`.
    """
    fillers = shape.rows - len(lengths)
    each, over = divmod(shape.tokens - int(lengths.sum()), fillers)
    return np.concatenate([lengths, each + (np.arange(fillers) < over)])


class StaticBatch:
    """A batch whose tensors stay where they are: what it holds changes by one copy.

    `size` is the number of examples B; of sequences there are R, `shape.rows` with the fillers.
    """

    def __init__(self, examples: Examples, size: int, shape: Shape) -> None:
        self.examples = examples
        self.shape = shape
        self.sequences = 2 * size if examples.siamese else size
        device = examples.labels.device
        self._given = torch.empty(2 * shape.rows + size, dtype=torch.int64, device=device)
        parts = self._given.split([shape.rows, shape.rows, size])
        self._starts, self._lengths, self._rows = parts

    def put(self, rows: np.ndarray) -> None:
        """Take in the examples `rows` (int64 [B]). The host does not wait for the device."""
        of_rows, data = self.examples.sequence_rows(rows), self.examples.sequences
        starts = np.zeros(self.shape.rows, np.int64)
        starts[: len(of_rows)] = data.starts[of_rows]
        lengths = filled(data.lengths[of_rows], self.shape)
        given = torch.from_numpy(np.concatenate([starts, lengths, rows]))
        if self._given.is_cuda:
            # Pinned anew each time: torch gives the memory out again only after the copy.
            given = given.pin_memory()
        self._given.copy_(given, non_blocking=True)

    def packed(self) -> Packed:
        """Return the batch with its fillers, [`shape.tokens`]; all is computed on the device.

        A filler holds the data's first tokens.
        """
        data, lengths = self.examples.sequences, self._lengths
        shift = self._starts - (lengths.cumsum(0) - lengths)
        tokens = self.shape.tokens
        # The size is given, or repeat_interleave would wait for the device to learn it.
        index = torch.repeat_interleave(shift, lengths, output_size=tokens)
        index = index + torch.arange(tokens, device=index.device)
        index = index.clamp(max=len(data.flat) - 1)
        return Packed(data.flat[index], data.types[index], lengths, self.shape.longest)

    def labels(self) -> Tensor:
        """Return the labels [B]."""
        return self.examples.labels[self._rows]
