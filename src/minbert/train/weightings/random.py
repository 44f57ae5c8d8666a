"""Random weights (Lin et al., 2022, algorithm 2)."""

import torch
from torch import Tensor

from minbert.train.weightings import Weighting


class Random(Weighting):
    """The softmax of standard normal draws of each step."""

    def __call__(self) -> Tensor:
        drawn = torch.randn(self.tasks, generator=self.generator)
        return torch.softmax(drawn, dim=0).to(self.device)
