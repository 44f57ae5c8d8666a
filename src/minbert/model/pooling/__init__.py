"""From the tokens' hidden states to one embedding per row."""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from minbert.model.packed import Packed


class Pooling(Protocol):
    """Makes one embedding per row; with `first_only` it reads only the rows' first tokens."""

    first_only: bool

    def __call__(self, hidden: Tensor, batch: Packed, pooler: Callable[[Tensor], Tensor]) -> Tensor:
        """Return [B, H] from the tokens' `hidden` [T, H] and the encoder's `pooler`."""
