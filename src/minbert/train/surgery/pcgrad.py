"""PCGrad: project conflicting gradients (Yu et al., 2020, algorithm 1)."""

import torch
from torch import Tensor

from minbert.train.surgery import Method


class PCGrad(Method):
    r"""Weights [n] of the n task gradients in PCGrad's update.

    For each task i, g_i is projected onto the normal plane of every g_j it conflicts with,
    j in random order: g_i <- g_i - min(0, g_i . g_j) / |g_j|^2 g_j. The update is the **sum** of
    the projected gradients. In the coordinates W of the original gradients, g_i = W_i J, every
    inner product is W_i G_j, so only `gramian` [n, n] is needed.

    The orders come from `generator` (CPU). Nothing waits for `gramian`'s device.
    """

    itself = False
    """Whether g_i is projected against the g_i that it was, too, when its turn comes."""

    def __call__(self, gramian: Tensor, generator: torch.Generator) -> Tensor:
        n = gramian.shape[0]
        weights = torch.eye(n, dtype=gramian.dtype, device=gramian.device)
        floor = torch.finfo(gramian.dtype).tiny
        for i in range(n):
            row = weights[i].clone()
            for j in torch.randperm(n, generator=generator).tolist():
                if j != i or self.itself:
                    conflict = torch.clamp(row @ gramian[:, j], max=0.0)
                    row[j] = row[j] - conflict / gramian[j, j].clamp(min=floor)
            weights[i] = row
        return weights.sum(0)
