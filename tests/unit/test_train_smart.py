"""SMART: its perturbations, its penalty and gradient, and what it leaves alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from model_batches import alone
from stepping import (
    STEP,
    WEIGHTS,
    assert_same,
    backward,
    generator,
    grads,
    task_loss,
    tiny_model,
)
from torch import Tensor
from torch.nn import functional as F

from minbert.model.encoder import compute_in
from minbert.spec.parts import load_part
from minbert.train.smart import SmartPenalty
from minbert.train.step import Gradients

ROWS = torch.tensor([3, 0, 5])
STRONG = {"weight": 4.0, "noise": 0.1, "step": 0.1}
FAR = {"noise": 0.1, "step": 50.0}
# Algorithm 1 as published.
ROW = {"normalise": "row", "noise": 0.1, "radius": 0.2, "step": 0.1, "ascents": 2}
AS_SMART_PYTORCH = {"divergence": "detached_kl", "reduction": "sum"}


class Penalised:
    """A model with its penalty, and what it makes of `rows` of a task."""

    def __init__(
        self, make_spec: Any, sources: Any, task: str = "sst", still: bool = True, **smart: Any
    ) -> None:
        spec = make_spec((task,), still=still, smart={"weight": 2.0, **smart})
        self.smart, self.task = spec.smart, task
        self.model = tiny_model(spec, sources)
        self.penalty = SmartPenalty(spec, self.model, seed=5)

    def __call__(self, rows: Tensor = ROWS, share: float = 1.0, measure: bool = False) -> Any:
        output = self.model.forward([(self.task, rows)])[0][0]
        return self.penalty(self.task, rows, output, share, measure)

    def expected(self) -> Tensor:
        """Return the penalty for `ROWS` as the libraries, or algorithm 1, have it."""
        batch, _ = self.model.examples[self.task]["train"].batch(ROWS)
        f = partial(alone, self.model.module, self.task, batch)
        noise = self.smart.noise * torch.randn(len(batch.tokens), 32, generator=generator(5))
        usual = load_part("divergence", "squared_error" if self.task == "sts" else "symmetric_kl")
        apart = last = partial(usual, self.model.losses[self.task])
        if self.smart.divergence:
            apart, last = kl_loss, sym_kl_loss
        clean = f(torch.zeros_like(noise))
        for _ in range(self.smart.ascents):
            noise.requires_grad_()
            (gradient,) = torch.autograd.grad(apart(f(noise), clean.detach()), noise)
            if self.smart.normalise == "row":
                parts = gradient.split(batch.lengths.tolist())
                largest = torch.cat([part.abs().max().expand(len(part), 1) for part in parts])
                moved = noise.detach() + self.smart.step * gradient / largest
                noise = moved.clamp(-self.smart.radius, self.smart.radius)
            else:
                moved = noise.detach() + self.smart.step * gradient
                norm = torch.linalg.vector_norm(moved, ord=math.inf, dim=-1, keepdim=True)
                noise = moved / (norm + 1e-6)
        return self.smart.weight * last(f(noise), clean)


def kl_loss(output: Tensor, target: Tensor, reduction: str = "batchmean") -> Tensor:
    """Return KL(target || output) of softmaxes, as smart-pytorch has it."""
    return F.kl_div(output.log_softmax(-1), target.softmax(-1), reduction=reduction)


def sym_kl_loss(output: Tensor, target: Tensor) -> Tensor:
    return kl_loss(output, target.detach(), "sum") + kl_loss(target, output.detach(), "sum")


@pytest.mark.parametrize(
    ("task", "chosen"),
    [
        *(("sst", FAR), ("sts", FAR), ("sst", {"noise": 0.01, "step": 1.0, "ascents": 3})),
        *(("sst", AS_SMART_PYTORCH | FAR), ("para", AS_SMART_PYTORCH), ("sst", ROW), ("sts", ROW)),
    ],
)
def test_penalty_and_gradients_are_the_libraries_and_algorithm_1s(
    task: str, chosen: dict[str, Any], make_spec: Any, sources: Any
) -> None:
    made = Penalised(make_spec, sources, task, **chosen)
    expected = made.expected()
    value, measured = made(measure=True)
    assert all(g is None for g in grads(made.model).values()), "the ascent leaves gradients alone"
    torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-4)
    assert value > 1e-3 or (task == "para" and value == 0), "a softmax over one output is 1"
    assert measured["penalty"] == value and measured["unperturbed_penalty"] == 0
    theirs, ours = (backward(made.model, of) for of in (expected, value))
    largest = max(g.abs().max() for g in theirs.values() if g is not None)
    assert_same(ours, theirs, rtol=0, atol=1e-4 * largest.item())


@pytest.mark.parametrize("chosen", [{}, AS_SMART_PYTORCH], ids=["mean", "sum"])
def test_parts_of_a_batch_add_up_to_its_penalty_and_ascend_its_divergence(
    chosen: dict[str, str], make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, ascended = Penalised(make_spec, sources, **chosen), []

    def moved(apart: Callable[[Tensor], Tensor], start: Tensor, *_: Any) -> Tensor:
        move = torch.full_like(start, 0.3)
        ascended.append(apart(move))
        return move

    monkeypatch.setattr("minbert.train.smart.perturbation", moved)
    shares = [(ROWS, 1.0), (ROWS[:1], 1 / 3), (ROWS[1:], 2 / 3)]
    for found in ([share * made(rows, share)[0] for rows, share in shares], ascended):
        assert found[0].item() == pytest.approx((found[1] + found[2]).item(), rel=1e-4)


def test_noise_is_added_before_embeddings_are_rounded(make_spec: Any, sources: Any) -> None:
    model = tiny_model(make_spec(("sst",), still=True), sources)
    batch, _ = model.examples["sst"]["train"].batch(ROWS)
    compute_in(model.module, "bf16")
    embeddings, seen = model.module.encoder.shared.embeddings, []
    embeddings.norm.register_forward_hook(lambda _, __, out: seen.append(out))
    noise = torch.full((len(batch.tokens), 32), 1e-3)
    assert torch.equal(embeddings(batch, noise), (seen[0] + noise).bfloat16())


def test_a_steps_losses_have_their_penalties(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=STRONG)
    model = tiny_model(spec, sources)
    penalty, expected = SmartPenalty(spec, model, 0), []
    for task, rows in STEP:
        added, _ = penalty(task, rows, model.forward([(task, rows)])[0][0])
        expected.append(task_loss(model, spec, task, rows) + spec.tasks[task].weight * added)
    results = Gradients(spec, model, 0, generator())(STEP)
    noted = [each.weight * each.loss for each in results]
    torch.testing.assert_close(noted, [loss.detach() for loss in expected])


def test_noise_comes_from_a_separate_generator(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=STRONG)
    model, found = tiny_model(spec, sources), []
    before, draw = torch.get_rng_state(), generator(7)
    for seed in (0, 0, 1):
        run = Gradients(spec, model, seed, draw)
        found.append([result.loss.item() for _ in range(2) for result in run(STEP)])
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(draw.get_state(), generator(7).get_state())
    assert found[0] == found[1] != found[2]
    assert found[0][:3] != found[0][3:], "each step draws noise anew"


def test_recording_changes_no_draw(make_spec: Any, sources: Any) -> None:
    found = []
    for measure in (True, False):
        made = Penalised(make_spec, sources, still=False, **STRONG)
        value, measured = made(measure=measure)
        found.append((value.item(), torch.get_rng_state().tolist()))
        assert not measure or measured["unperturbed_penalty"] > 0, "of two dropout masks"
    assert found[0] == found[1]


def test_weight_nought_is_no_smart(make_spec: Any) -> None:
    assert make_spec(smart={"weight": 0.0}) == make_spec()
