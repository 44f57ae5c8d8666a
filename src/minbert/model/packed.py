"""Packed batches: real tokens laid end to end, so that padding is never computed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from minbert.model.padding import PaddedView, padded_view


@dataclass
class Packed:
    """B rows (token sequences) of T real tokens in all, end to end, with no padding.

    `tokens` and `types` are int64 [T]; `lengths` is int64 [B], each at least 1; `longest` is the
    largest of `lengths` as a Python number, known without waiting for a device. What follows from
    these is derived on first use, on their device, and kept.
    """

    tokens: Tensor
    types: Tensor
    lengths: Tensor
    longest: int

    @classmethod
    def build(
        cls,
        tokens: Tensor | Sequence[int],
        types: Tensor | Sequence[int],
        lengths: Tensor | Sequence[int],
        device: torch.device | str = "cpu",
    ) -> Packed:
        """Return the batch on `device`, from tensors or sequences of whole numbers.

        Raises `ValueError` if the lengths do not add up to the tokens, or a row is empty.
        """
        counts = torch.as_tensor(lengths, dtype=torch.int64)
        ids = torch.as_tensor(tokens, dtype=torch.int64)
        kinds = torch.as_tensor(types, dtype=torch.int64)
        if counts.numel() == 0 or int(counts.min()) < 1:
            raise ValueError("a packed batch needs one row or more, each of one token or more")
        if not int(counts.sum()) == ids.numel() == kinds.numel():
            raise ValueError(
                f"lengths add up to {int(counts.sum())}, but there are {ids.numel()} tokens "
                f"and {kinds.numel()} types"
            )
        return cls(ids, kinds, counts, int(counts.max())).to(device)

    @classmethod
    def concatenate(cls, batches: Sequence[Packed]) -> Packed:
        """Return one batch with the rows of all `batches`, in order."""
        return cls(
            torch.cat([b.tokens for b in batches]),
            torch.cat([b.types for b in batches]),
            torch.cat([b.lengths for b in batches]),
            max(b.longest for b in batches),
        )

    @staticmethod
    def split_hidden(hidden: Tensor, batches: Sequence[Packed]) -> list[Tensor]:
        """Undo `concatenate`: split `hidden` [T, H] into the part [T_i, H] of each batch."""
        return list(hidden.split([b.tokens.shape[0] for b in batches]))

    def to(self, device: torch.device | str) -> Packed:
        """Return the batch on `device`; itself if it is there already."""
        target = torch.device(device)
        if all(t.device == target for t in (self.tokens, self.types, self.lengths)):
            return self

        def move(value: Tensor) -> Tensor:
            return value.to(target, non_blocking=target.type != "cpu")

        return Packed(move(self.tokens), move(self.types), move(self.lengths), self.longest)

    @property
    def rows(self) -> int:
        """The number of sequences, B."""
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
    def padded(self) -> PaddedView:
        """Where attention, which alone needs padding, puts the tokens (see `PaddedView`)."""
        on_cpu = self.lengths.device.type == "cpu"
        return padded_view(self.lengths, self.longest, self.row_of, self.positions, grouped=on_cpu)
