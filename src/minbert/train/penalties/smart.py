"""SMART's smoothness-inducing adversarial penalty (Jiang et al., 2020, section 3.1)."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from minbert.spec.parts import load_part
from minbert.spec.stage import Smart, StageSpec, divergence
from minbert.train.finetune import Finetuned
from minbert.train.losses import Loss


class SmartPenalty:
    """How much a small, adversarial perturbation of the embeddings changes a task's output.

    The penalty is `weight` times the divergence of f(x + e) from f(x), with gradients through both
    outputs and none through e [T, H], which `perturbation` finds. Dropout stays on in all passes,
    as in the authors' code (choice). Noise has a generator of its own, so that a run draws the same
    samples, heads and surgery orders with and without SMART.
    """

    def __init__(
        self, spec: StageSpec, learner: Finetuned, losses: Mapping[str, Loss], seed: int
    ) -> None:
        assert spec.smart is not None
        self.smart = spec.smart
        self.learner = learner
        self.losses = losses
        names = {task: divergence(spec.smart, task) for task in spec.trained_tasks}
        self.divergences = {task: load_part("divergence", name) for task, name in names.items()}
        device = next(learner.module.parameters()).device
        self.generator = torch.Generator(device).manual_seed(seed)

    def __call__(self, task: str, rows: Tensor, output: Tensor) -> Tensor:
        """Return the weighted penalty for the training `rows` [B] of `task`; `output` is f(x)."""
        batch, _ = self.learner.examples[task]["train"].batch(rows)
        forward = partial(self.learner.module, task, batch)
        apart = partial(self.divergences[task], self.losses[task])
        clean = output.detach()
        size = (len(batch.tokens), self.learner.module.encoder.hidden)
        normal = torch.randn(size, generator=self.generator, device=output.device)
        start = self.smart.noise * normal
        noise = perturbation(
            lambda noise: apart(forward(noise), clean), start, batch.row_of, batch.rows, self.smart
        )
        return self.smart.weight * apart(forward(noise), output)


def perturbation(
    away: Callable[[Tensor], Tensor], start: Tensor, row_of: Tensor, rows: int, smart: Smart
) -> Tensor:
    r"""Return the perturbation of the embeddings [T, H] after `ascents` steps from `start`.

    `away` is the divergence that a perturbation causes. Each step is algorithm 1's, for each row
    (sequence) alone, with the largest entry as norm throughout: with g the gradient of `away`,

        e <- clip(e + step * g / max|g|, -radius, radius).

    `row_of` [T] is each token's row, of `rows` in all. Parameters' gradients do not change.
    """
    noise = start
    for _ in range(smart.ascents):
        noise = noise.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(away(noise), noise)
        largest = gradient.new_zeros(rows).scatter_reduce(0, row_of, gradient.abs().amax(1), "amax")
        # A row whose output does not change has no direction to climb in.
        scale = largest.clamp(min=torch.finfo(gradient.dtype).tiny)[row_of, None]
        noise = (noise + smart.step * gradient / scale).clamp(-smart.radius, smart.radius)
    return noise.detach()
