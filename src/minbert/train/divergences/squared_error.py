"""Squared difference of predicted values (Jiang et al., 2020, section 3.1, for regression)."""

from __future__ import annotations

from torch import Tensor

from minbert.train.losses import Loss


def squared_error(loss: Loss, output: Tensor, other: Tensor) -> Tensor:
    """Return the mean squared difference of the predictions, in the label's unit squared."""
    difference = loss.prediction(output) - loss.prediction(other)
    return difference.square().mean()
