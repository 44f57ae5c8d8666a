"""Squared error of one number."""

from torch import Tensor
from torch.nn import functional as F

from minbert.train.losses import HIGHEST, coin


class MeanSquaredError:
    """Squared error in the label's units of the value that `scores` reads off the output."""

    def loss(self, output: Tensor, label: Tensor) -> Tensor:
        return F.mse_loss(self.prediction(output), label)

    def constant(self, label: Tensor, classes: int) -> Tensor:
        return label.mean().reshape(1)

    def scores(self, output: Tensor) -> Tensor:
        return output

    def prediction(self, output: Tensor) -> Tensor:
        return self.scores(output).squeeze(-1)

    def log_probabilities(self, output: Tensor) -> Tensor:
        # A coin: the value's place between its bounds is the probability of heads.
        return coin(self.prediction(output) / HIGHEST)
