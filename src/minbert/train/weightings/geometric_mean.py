"""The geometric mean of the losses (Chennupati et al., 2019, section 3.3)."""

import torch
from torch import Tensor

from minbert.train.weightings import Weighting

LEAST = 1e-8
"""Stands for smaller losses, whose logarithm would rule the mean."""


class GeometricMean(Weighting):
    """A step's loss is the n-th root of the product of its n tasks' losses.

    Its derivative by a loss l is the mean divided by n l. The tasks' `weight` scale the whole.
    """

    def __call__(self, losses: Tensor) -> Tensor:
        losses = losses.clamp(min=LEAST)
        return torch.exp(losses.log().mean()) / (self.tasks * losses)
