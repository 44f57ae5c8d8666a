"""The squared difference of predicted values (Jiang et al., 2020, section 3.1, for regression)."""

from torch import Tensor

from minbert.train.losses import Loss


def squared_error(loss: Loss, output: Tensor, other: Tensor) -> Tensor:
    """Return the mean over the batch, in the label's unit squared."""
    return (loss.prediction(output) - loss.prediction(other)).square().mean()
