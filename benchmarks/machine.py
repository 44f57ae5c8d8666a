"""What the machine can do at most: its rate of matrix products."""

from __future__ import annotations

import time

import torch

SIZE = {"cpu": 1536, "cuda": 8192}
"""Rows and columns of the square matrices, by type of device."""


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class MatrixRate:
    """Operations a second of square products, as measured each time it is asked."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.size = SIZE[device.type]
        self.a = torch.randn(self.size, self.size, device=device, dtype=dtype)
        self.b = torch.randn(self.size, self.size, device=device, dtype=dtype)
        self.a @ self.b

    def measure(self, repeats: int = 3) -> float:
        """Return the best of some repeats: the limit is what the machine can do, not its mean."""
        best = float("inf")
        for _ in range(repeats):
            synchronise(self.device)
            start = time.perf_counter()
            self.a @ self.b
            synchronise(self.device)
            best = min(best, time.perf_counter() - start)
        return 2 * self.size**3 / best
