"""Dropout (Srivastava et al., 2014) from 16 random bits per entry, on a CPU."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16


def dropout(x: Tensor, p: float) -> Tensor:
    """Return `x` with entries zeroed with probability `p` and the others divided by 1 - `p`.

    On a CPU torch draws a whole number per entry, which takes longer than the layers around it.
    With 16 bits `p` is rounded to a multiple of 1/65536; the mean stays exact.
    """
    if p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    return x * keep(x.shape, p).to(x.dtype)


def keep(shape: torch.Size, p: float) -> Tensor:
    """Draw factors: 0 with probability `p`, else the value that keeps the mean; float32, CPU."""
    count = shape.numel()
    lost = min(round(p * LEVELS), LEVELS - 1)
    # The whole range: torch's default one leaves the highest bit out.
    bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    factors = torch.empty(count)
    torch.ge(bits.view(torch.int16)[:count], lost - LEVELS // 2, out=factors)
    return factors.mul_(LEVELS / (LEVELS - lost)).view(shape)


class Dropout(nn.Module):
    """`dropout` with probability `p`, in training only."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x
