"""From the tokens' hidden states to one embedding a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from minbert.model.packed import Packed


class Pooling(Protocol):
    """A way to one embedding a row; `first_only` says that it reads first tokens alone."""

    first_only: bool

    def __call__(self, hidden: Tensor, batch: Packed, pooler: Callable[[Tensor], Tensor]) -> Tensor:
        """Return [B, H] from the tokens' `hidden` [T, H] and the encoder's `pooler`."""
        ...
