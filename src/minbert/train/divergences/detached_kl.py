"""Kullback-Leibler divergence both ways, as smart-pytorch computes it (`sym_kl_loss`)."""

from functools import partial

from torch import Tensor
from torch.nn import functional as F

from minbert.train.losses import Loss


def detached_kl(loss: Loss, output: Tensor, other: Tensor) -> Tensor:
    r"""Return the mean of KL(sg(q) || p) + KL(sg(p) || q), in nats; sg stops gradients.

    p and q are the softmax over a head's outputs, whatever its loss: of a single output it is 1,
    so that the divergence and its gradients are 0. As no target has a gradient, the gradient is
    p - q for `output` and q - p for `other`, divided by the batch's rows.
    """
    p, q = output.log_softmax(-1), other.log_softmax(-1)
    kl = partial(F.kl_div, reduction="batchmean", log_target=True)
    return kl(p, q.detach()) + kl(q, p.detach())
