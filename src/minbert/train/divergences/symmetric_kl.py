"""The symmetrised Kullback-Leibler divergence (Jiang et al., 2020, section 3.1)."""

from torch import Tensor

from minbert.train.losses import Loss


def symmetric_kl(loss: Loss, output: Tensor, other: Tensor) -> Tensor:
    """Return the mean of KL(p || q) + KL(q || p), in nats, of the predicted distributions."""
    p, q = loss.log_probabilities(output), loss.log_probabilities(other)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1).mean()
