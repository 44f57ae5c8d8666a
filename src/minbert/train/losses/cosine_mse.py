"""Squared error of a cosine scaled to the labels' 0 to 5 (adapter-fusion, section 4.1)."""

from torch import Tensor
from torch.nn import functional as F

from minbert.train.losses import HIGHEST, coin


class CosineSquaredError:
    """Reads a cosine in [-1, 1], as head `cosine` gives it; the prediction is 5 relu(cosine)."""

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        return F.mse_loss(self.prediction(output), label)

    def constant(self, label: Tensor, classes: int) -> Tensor:
        return (label.mean() / HIGHEST).reshape(1)

    def scores(self, output: Tensor) -> Tensor:
        return HIGHEST * output.float().relu()

    def prediction(self, output: Tensor) -> Tensor:
        return self.scores(output).squeeze(-1)

    def log_probabilities(self, output: Tensor) -> Tensor:
        return coin(self.prediction(output) / HIGHEST)
