"""Packed batches: real tokens end to end, so that only attention computes on padding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


@dataclass
class Packed:
    """B rows (sequences) of T real tokens in all, end to end, without padding."""

    tokens: Tensor  # int64 [T]
    types: Tensor  # int64 [T]
    lengths: Tensor  # int64 [B], each at least 1
    longest: int  # of the lengths, known without waiting for a device
    _derived: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False)

    def derive(self, make: Callable[..., Any], *how: object) -> Any:
        """Return `make(batch, *how)`: made once, and kept."""
        if (make, *how) not in self._derived:
            self._derived[make, *how] = make(self, *how)
        return self._derived[make, *how]

    @property
    def rows(self) -> int:
        return self.lengths.shape[0]

    @cached_property
    def first(self) -> Tensor:
        """Index of each row's first token, int64 [B]."""
        return self.lengths.cumsum(0) - self.lengths

    @cached_property
    def row_of(self) -> Tensor:
        """Row of each token, int64 [T]."""
        rows = torch.arange(self.rows, device=self.lengths.device)
        # The size is given, or repeat_interleave would wait for the device to learn it.
        return torch.repeat_interleave(rows, self.lengths, output_size=self.tokens.shape[0])

    @cached_property
    def positions(self) -> Tensor:
        """Position of each token in its row, from 0, int64 [T]."""
        count = torch.arange(self.tokens.shape[0], device=self.tokens.device)
        return count - self.first[self.row_of]

    @cached_property
    def slots(self) -> Tensor:
        """Place of each token when all rows are padded to the longest, int64 [T]."""
        return self.row_of * self.longest + self.positions


def join(batches: Sequence[Packed]) -> Packed:
    """Return the rows of all `batches`, in their order, as one batch."""
    if len(batches) == 1:
        return batches[0]
    return Packed(
        torch.cat([batch.tokens for batch in batches]),
        torch.cat([batch.types for batch in batches]),
        torch.cat([batch.lengths for batch in batches]),
        max(batch.longest for batch in batches),
    )
