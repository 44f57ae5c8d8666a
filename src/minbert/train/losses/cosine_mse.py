"""Squared error of a cosine scaled to the labels' 0 to 5 (adapter-fusion, section 4.1)."""

from torch import Tensor

from minbert.train.losses import HIGHEST
from minbert.train.losses.mse import MeanSquaredError


class CosineSquaredError(MeanSquaredError):
    """Reads a cosine in [-1, 1], as head `cosine` gives it; the prediction is 5 relu(cosine)."""

    def scores(self, output: Tensor) -> Tensor:
        return HIGHEST * output.relu()
