"""SMART's smoothness-inducing adversarial penalty (Jiang et al., 2020, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from minbert.grid.parts import load_part
from minbert.grid.spec import Smart, StageSpec, divergence
from minbert.train.divergences import Divergence
from minbert.train.finetune import Finetuned
from minbert.train.losses import Loss


class SmartPenalty:
    """How far a small, adversarially chosen move of the embeddings changes a task's output.

    The move e [T, H] is what `perturbation` climbs to. The penalty is `weight` times the
    divergence of f(x + e) from f(x), with gradients through both outputs and none through e.
    Dropout stays on in all passes, as in the authors' code (choice). Noise comes from a generator
    of its own: a run draws the same samples, heads and surgery orders with and without SMART.
    """

    def __init__(
        self, spec: StageSpec, learner: Finetuned, losses: Mapping[str, Loss], seed: int
    ) -> None:
        assert spec.smart is not None
        self.smart = spec.smart
        self.learner = learner
        self.losses = losses
        self.divergences: dict[str, Divergence] = {
            task: load_part("divergence", divergence(spec.smart, task))
            for task in spec.trained_tasks
        }
        device = next(learner.module.parameters()).device
        self.generator = torch.Generator(device).manual_seed(seed)

    def __call__(self, task: str, rows: Tensor, output: Tensor) -> Tensor:
        """Return the weighted penalty for the training `rows` [B] of `task`, and f(x), `output`."""
        batch, _ = self.learner.examples[task]["train"].batch(rows)
        forward = partial(self.learner.module, task, batch)
        apart = partial(self.divergences[task], self.losses[task])
        clean = output.detach()
        start = self.smart.noise * self._normal(batch.tokens.shape[0], output.device)
        noise = perturbation(
            lambda noise: apart(forward(noise), clean), start, batch.row_of, batch.rows, self.smart
        )
        return self.smart.weight * apart(forward(noise), output)

    def _normal(self, tokens: int, device: torch.device) -> Tensor:
        size = (tokens, self.learner.module.encoder.hidden)
        return torch.randn(size, generator=self.generator, device=device)


def perturbation(
    away: Callable[[Tensor], Tensor], start: Tensor, row_of: Tensor, rows: int, smart: Smart
) -> Tensor:
    r"""Return the move of the embeddings [T, H] that `ascents` steps lead to from `start`.

    `away` is the divergence that a move causes. Each step is algorithm 1's, with the largest entry
    as norm throughout, a row (sequence) at a time: with g the gradient of `away`,

        e <- clip(e + step * g / max|g|, -radius, radius).

    `row_of` [T] is the row of each token, of `rows` in all. Parameters' gradients are left alone.
    """
    noise = start
    for _ in range(smart.ascents):
        noise = noise.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(away(noise), noise)
        largest = gradient.new_zeros(rows).scatter_reduce(0, row_of, gradient.abs().amax(1), "amax")
        # A row whose output does not move has nowhere to climb to.
        scale = largest.clamp(min=torch.finfo(gradient.dtype).tiny)[row_of, None]
        noise = (noise + smart.step * gradient / scale).clamp(-smart.radius, smart.radius)
    return noise.detach()
