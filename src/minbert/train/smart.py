"""SMART's smoothness-inducing adversarial penalty (Jiang et al., 2020, section 3.1)."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from minbert.spec.parts import load_part
from minbert.spec.stage import Smart, StageSpec, divergence
from minbert.train.checkpoints import Part
from minbert.train.trainable import Finetuned

EPSILON = 1e-6
"""What the authors' library adds to the norm that it divides a token's move by."""


class SmartPenalty(Part):
    """How much a small, adversarial perturbation of the embeddings changes a task's output.

    The penalty is `weight` times the divergence of f(x + e) from f(x) (and times the batch's rows,
    with `reduction: sum`), with gradients through both outputs and none through e [T, H], which
    `perturbation` finds. Each pass draws its dropout masks, as in the authors' code, so the penalty
    also holds how far two masks are apart: R-Drop (Liang et al., 2021). Noise comes from a separate
    generator, so that a run draws the same samples, heads and surgery orders without SMART.
    """

    kept = ("generator",)

    def __init__(self, spec: StageSpec, model: Finetuned, seed: int) -> None:
        assert spec.smart is not None
        self.smart = spec.smart
        self.model = model
        self.divergences = {
            task: load_part("divergence", divergence(spec.smart, task))
            for task in spec.trained_tasks
        }
        device = next(model.module.parameters()).device
        self.generator = torch.Generator(device).manual_seed(seed)

    def __call__(
        self, task: str, rows: Tensor, output: Tensor, share: float = 1.0, measure: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted penalty for the training `rows` [B] of `task`, and what to record.

        `output` is f(x). The rows are a `share` of a batch, whose mean divergence e ascends. If
        asked to `measure`: the penalty, and the penalty without e but with the same dropout
        masks, which changes no draw that follows.
        """
        batch, _ = self.model.examples[task]["train"].batch(rows)

        def forward(noise: Tensor | None = None) -> Tensor:
            return self.model.module([(task, batch)], noise)[0]

        apart = partial(self.divergences[task], self.model.losses[task])
        clean = output.detach()
        size = (len(batch.tokens), self.model.module.encoder.hidden)
        normal = torch.randn(size, generator=self.generator, device=output.device)
        start = self.smart.noise * normal
        noise = perturbation(
            lambda e: share * apart(forward(e), clean), start, batch.row_of, batch.rows, self.smart
        )
        # Parts of a batch are weighted by their shares, so that these add up to its mean or sum.
        weight = self.smart.weight * (len(rows) / share if self.smart.reduction else 1)
        measured: dict[str, Tensor] = {}
        if measure:
            # What torch's default generators draw here, they draw again.
            place = output.device
            devices = [] if place.type == "cpu" else [place]
            with torch.no_grad(), torch.random.fork_rng(devices, device_type=place.type):
                measured["unperturbed_penalty"] = weight * apart(forward(), clean)
        penalty = weight * apart(forward(noise), output)
        if measure:
            measured["penalty"] = penalty.detach()
        return penalty, measured


def perturbation(
    away: Callable[[Tensor], Tensor], noise: Tensor, row_of: Tensor, rows: int, smart: Smart
) -> Tensor:
    r"""Return the perturbation e of the embeddings [T, H] after `ascents` steps from `noise`.

    `away` is the divergence that a perturbation causes, g its gradient. `row_of` [T] is each
    token's row, of `rows` in all. Parameters' gradients do not change.

    By token, as the authors' library and mt-dnn compute it, each token's move, noise included, is
    divided by its largest entry; one without a gradient keeps the direction of its noise:

        m = e + step * g;  e <- m / (max|m| + EPSILON).

    By row (sequence), as algorithm 1 has it, with the largest entry of a row as norm:

        e <- clip(e + step * g / max|g|, -radius, radius).
    """
    for _ in range(smart.ascents):
        noise = noise.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(away(noise), noise)
        if smart.normalise == "token":
            moved = noise + smart.step * gradient
            noise = moved / (moved.abs().amax(1, keepdim=True) + EPSILON)
        else:
            assert smart.radius is not None
            largest = gradient.new_zeros(rows)
            largest = largest.scatter_reduce(0, row_of, gradient.abs().amax(1), "amax")
            # A row whose output does not change has no direction to climb in.
            norm = largest.clamp(min=torch.finfo(gradient.dtype).tiny)[row_of, None]
            moved = noise + smart.step * gradient / norm
            noise = moved.clamp(-smart.radius, smart.radius)
    return noise.detach()
