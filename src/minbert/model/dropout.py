"""Dropout (Srivastava et al., 2014) from 16 random bits per entry, on a CPU."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16


def kept_share(p: float) -> float:
    """Return the probability with which `dropout_mask` keeps an entry: 1 - `p`, to 1/65536."""
    return 1 - min(round(p * LEVELS), LEVELS - 1) / LEVELS


def dropout_mask(shape: torch.Size, p: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw 0 with probability `p` and 1 elsewhere, on a CPU.

    With 16 bits `p` is rounded to a multiple of 1/65536. torch would draw a whole number per entry,
    which takes longer than the layers around it.
    """
    count = shape.numel()
    # The whole range: torch's default one leaves the highest bit out.
    bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    kept = torch.empty(count, dtype=dtype)
    lost = round((1 - kept_share(p)) * LEVELS)
    torch.ge(bits.view(torch.int16)[:count], lost - LEVELS // 2, out=kept)
    return kept.view(shape)


def apply_mask(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return `x` with the entries zeroed where a `dropout_mask`, if any, is 0."""
    return x if mask is None else x * mask


class Dropout(nn.Module):
    """Zeroes entries with probability `p` and divides the others by `kept_share`, in training only.

    So the mean is kept exactly.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor, beside: Tensor | None = None) -> Tensor:
        """Return `x` after dropout, added to what is `beside` it, if given."""
        if not self.training or self.p == 0.0 or x.device.type != "cpu":
            left = F.dropout(x, self.p, self.training)
            return left if beside is None else beside + left
        mask, factor = dropout_mask(x.shape, self.p, x.dtype), 1 / kept_share(self.p)
        if beside is None:
            return (x * mask).mul_(factor)
        return torch.addcmul(beside, x, mask, value=factor)
