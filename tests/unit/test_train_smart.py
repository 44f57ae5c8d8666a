"""SMART: its perturbations, its penalty and gradient, and what it leaves alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from model_batches import alone
from stepping import (
    STEP,
    WEIGHTS,
    assert_same,
    backward,
    generator,
    gradients,
    grads,
    task_loss,
    tiny_model,
)
from torch import Tensor
from torch.nn import functional as F

from minbert.model.encoder import compute_in
from minbert.spec.stage import Smart, StageSpec
from minbert.train.divergences.squared_error import squared_error
from minbert.train.divergences.symmetric_kl import symmetric_kl
from minbert.train.smart import SmartPenalty, perturbation
from minbert.train.step import Gradients

ROWS = torch.tensor([3, 0, 5])
ROW: dict[str, Any] = {"weight": 1, "normalise": "row"}
"""Algorithm 1 as published, but for its radius."""
STRONG = {"weight": 4.0, "noise": 0.1, "step": 0.1}
AS_SMART_PYTORCH = {"divergence": "detached_kl", "reduction": "sum"}
DIVERGENCES: dict[str, Any] = {
    **{"sst": symmetric_kl, "para": symmetric_kl, "sts": squared_error},
}


class Penalised:
    """A model with its penalty, and what it makes of `rows` of a task."""

    def __init__(self, spec: StageSpec, sources: Any, task: str = "sst") -> None:
        self.smart, self.task = spec.smart, task
        self.model = tiny_model(spec, sources)
        self.penalty = SmartPenalty(spec, self.model, seed=5)

    def __call__(self, rows: Tensor = ROWS, share: float = 1.0, measure: bool = False) -> Any:
        return self.penalty(self.task, rows, self.output(rows), share, measure)

    def output(self, rows: Tensor) -> Tensor:
        return self.model.forward([(self.task, rows)])[0][0]

    def expected(self) -> Tensor:
        """Return the penalty for `ROWS` as the libraries, or algorithm 1, have it."""
        batch, _ = self.model.examples[self.task]["train"].batch(ROWS)
        f = partial(alone, self.model.module, self.task, batch)
        noise = self.smart.noise * torch.randn(len(batch.tokens), 32, generator=generator(5))
        apart = last = partial(DIVERGENCES[self.task], self.model.losses[self.task])
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


def test_golden_move_by_token() -> None:
    gradient = torch.tensor([[1.0, -3.0], [0.0, 0.0]])
    noise, smart = torch.tensor([[0.1, -0.2], [0.3, 0.0]]), Smart(weight=1, step=0.1)
    # 0.1 + 0.1 * 1 = 0.2 and -0.2 - 0.1 * 3 = -0.5; the second token has no gradient.
    expected = torch.tensor([[0.2 / 0.500001, -0.5 / 0.500001], [0.3 / 0.300001, 0.0]])
    found = perturbation(
        lambda e: (e * gradient).sum(), noise, torch.zeros(2, dtype=torch.int64), 1, smart
    )
    torch.testing.assert_close(found, expected, atol=0, rtol=1e-6)


FAR = {"noise": 0.1, "step": 50.0}
ROW = {"normalise": "row", "noise": 0.1, "radius": 0.2, "step": 0.1, "ascents": 2}


@pytest.mark.parametrize(
    ("task", "chosen"),
    [
        *(("sst", FAR), ("sts", FAR), ("sst", {"noise": 0.01, "step": 1.0, "ascents": 3})),
        *(("sst", AS_SMART_PYTORCH), ("sst", AS_SMART_PYTORCH | FAR), ("para", AS_SMART_PYTORCH)),
        *(("sst", ROW), ("sts", ROW)),
    ],
)
def test_penalty_and_gradients_are_the_libraries_and_algorithm_1s(
    task: str, chosen: dict[str, Any], make_spec: Any, sources: Any
) -> None:
    made = Penalised(make_spec((task,), still=True, smart={"weight": 2.0, **chosen}), sources, task)
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
    made = Penalised(make_spec(("sst",), still=True, smart={"weight": 2.0, **chosen}), sources)
    ascended: list[Tensor] = []

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
    embeddings = model.module.encoder.shared.embeddings
    seen: list[Tensor] = []
    embeddings.norm.register_forward_hook(lambda _, __, out: seen.append(out))
    noise = torch.full((len(batch.tokens), 32), 1e-3)
    found = embeddings(batch, noise)
    assert torch.equal(found, (seen[0] + noise).bfloat16())


def test_a_step_has_the_gradient_of_losses_with_their_penalties(
    make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=1, smart=STRONG)
    model = tiny_model(spec, sources)
    penalty, losses = SmartPenalty(spec, model, 0), []
    for task, rows in STEP:
        added, _ = penalty(task, rows, model.forward([(task, rows)])[0][0])
        losses.append(task_loss(model, spec, task, rows) + spec.tasks[task].weight * added)
    expected = backward(model, torch.stack(losses).sum())
    expected = {n: None if g is None else g.clone() for n, g in expected.items()}
    assert_same(gradients(model, spec, STEP), expected, rtol=1e-3, atol=1e-5)
    results = Gradients(spec, model, 0, generator())(STEP)
    noted = [each.weight * each.loss.item() for each in results]
    assert noted == pytest.approx([loss.item() for loss in losses], rel=1e-4)


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


def test_recording_changes_no_bit_and_weight_nought_is_no_smart(
    make_spec: Any, run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(name: str, weight: float | None) -> tuple[list[Any], bytes]:
        smart = None if weight is None else {"weight": weight}
        spec = make_spec(("sst", "sts"), epochs=2, surgery="pcgrad", smart=smart)
        out = run(spec, 3, name)
        rows = pq.read_table(out / "history.parquet").drop_columns(["time"]).to_pylist()
        told = [row for row in rows if "penalty" in row["metric"]]
        return told, (out / "model.safetensors").read_bytes()

    without, (often, weights) = trained("without", None), trained("often", 5.0)
    assert trained("nought", 0.0)[1] == without[1] != weights
    monkeypatch.setattr("minbert.train.loop.POINTS", 1)
    seldom, same = trained("seldom", 5.0)
    assert same == weights
    # Six steps of two tasks, two metrics: of each step, and of the third and sixth.
    assert (len(often), len(seldom)) == (24, 8)
    assert {row["step"] for row in seldom} == {3, 6} and all(row in often for row in seldom)
