"""Aggregators of torchjd (optional) that work on a Gramian (Quinton and Rey, 2024), by one adapter.

They compute on the CPU in double precision, with torchjd's defaults.
"""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.train.surgery import Method


class TorchJD(Method):
    """torchjd's aggregator `name` with its `settings`. Raises `UserError` if it is missing."""

    def __init__(self, name: str, tasks: int, **settings: Any) -> None:
        super().__init__(tasks)
        try:
            made = getattr(import_module("torchjd.aggregation"), name)(**settings)
        except ImportError as error:
            raise UserError(
                f"surgery by {name} needs torchjd 0.18 and its solvers ({error}): "
                "pip install -c requirements.lock -e '.[methods]', or choose 'surgery: pcgrad'"
            ) from error
        # What finds the weights: from a Gramian, if there is such a thing.
        self.weighting: Any = getattr(made, "gramian_weighting", None) or made.weighting

    def __call__(self, gramian: Tensor, generator: torch.Generator) -> Tensor:
        """Return weights [n]; all NaN if `gramian` is not finite, so that the loop can say why."""
        known = gramian.detach().to("cpu", torch.float64)
        if not known.isfinite().all():
            return torch.full_like(gramian.diagonal(), torch.nan)
        return self.weighting(known).to(gramian)
