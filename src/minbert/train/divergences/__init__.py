"""Divergences: functions of a loss and two outputs [B, classes] of a head; 0 if they agree."""

from functools import partial

from torch import Tensor
from torch.nn import functional as F

from minbert.train.losses import Loss


def symmetric_kl(loss: Loss, output: Tensor, other: Tensor) -> Tensor:
    """Return the mean of KL(p || q) + KL(q || p), in nats, of the predicted distributions.

    It is the symmetrised Kullback-Leibler divergence of Jiang et al. (2020, section 3.1).
    """
    p, q = loss.log_probabilities(output), loss.log_probabilities(other)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1).mean()


def squared_error(loss: Loss, output: Tensor, other: Tensor) -> Tensor:
    """Return the mean over the batch, in the label's unit squared, of predicted values.

    It is what Jiang et al. (2020, section 3.1) have for regression.
    """
    return (loss.prediction(output) - loss.prediction(other)).square().mean()


def detached_kl(loss: Loss, output: Tensor, other: Tensor) -> Tensor:
    r"""Return the mean of KL(sg(q) || p) + KL(sg(p) || q), in nats; sg stops gradients.

    It is `sym_kl_loss` of smart-pytorch. p and q are the softmax over a head's outputs, whatever
    its loss: of a single output it is 1, so that the divergence and its gradients are 0. As no
    target has a gradient, the gradient is p - q for `output` and q - p for `other`, divided by the
    batch's rows.
    """
    p, q = output.log_softmax(-1), other.log_softmax(-1)
    kl = partial(F.kl_div, reduction="batchmean", log_target=True)
    return kl(p, q.detach()) + kl(q, p.detach())
