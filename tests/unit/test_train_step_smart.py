"""A step's gradients with SMART's penalty in the tasks' losses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from stepping import (
    STEP,
    WEIGHTS,
    assert_same,
    conflicting,
    gradients,
    learner,
    losses,
    make_gradients,
)
from torch import Tensor
from torch.nn import functional as F
from torchjd.aggregation import PCGrad

from minbert.model.encoder import compute_in
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.finetune import Finetuned

SMART = {"weight": 4.0, "noise": 0.1, "step": 0.1}


def penalised(spec: StageSpec, made: Finetuned, seed: int) -> list[Tensor]:
    """Return the weighted losses of `STEP`, each with SMART's penalty; `seed` is the noise's."""
    penalty = load_part("penalty", "smart")(spec, made, losses(spec), seed)
    found = []
    for task, rows in STEP:
        output, label = made.output(task, rows)
        loss = losses(spec)[task].loss(output, label) + penalty(task, rows, output)[0]
        found.append(spec.tasks[task].weight * loss)
    return found


@pytest.mark.parametrize("shared_layers", ["all", 1])
def test_smarts_penalty_has_its_tasks_weight_and_its_gradient(
    shared_layers: Any, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=shared_layers, smart=SMART)
    made = learner(spec, sources)
    names, parameters = zip(*made.module.named_parameters(), strict=True)
    total = torch.stack(penalised(spec, made, seed=0)).sum()
    expected = dict(
        zip(names, torch.autograd.grad(total, parameters, allow_unused=True), strict=True)
    )
    found = gradients(made, spec, STEP)
    assert_same(found, expected, rtol=1e-3, atol=1e-5)
    without = gradients(made, spec.model_copy(update={"smart": None}), STEP)
    assert any(
        g is not None and not torch.allclose(g, found[n], rtol=1e-2) for n, g in without.items()
    )


def test_smarts_penalty_pulls_at_the_clean_output_too(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=SMART)
    made = learner(spec, sources)
    penalty = load_part("penalty", "smart")(spec, made, losses(spec), 0)
    rows = STEP[2][1]
    output, _ = made.output("sts", rows)
    value, _ = penalty("sts", rows, output)
    (slope,) = torch.autograd.grad(value, output)
    # value = weight * mean of (moved - output)^2, so its slope's squares tell the value.
    assert value > 0
    weight, n = SMART["weight"], len(rows)
    assert (slope * n / (2 * weight)).square().mean() * weight == pytest.approx(
        value.item(), rel=1e-4
    )


def test_surgery_is_on_the_gradients_of_losses_with_their_penalties(
    make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, surgery="pcgrad", smart=SMART)
    made, _ = conflicting(spec, sources)
    shared = made.shared_parameters()
    rows: list[Tensor] = []
    own: dict[str, Any] = {}
    for (task, _), loss in zip(STEP, penalised(spec, made, seed=0), strict=True):
        head = dict(made.module.heads[task].named_parameters(prefix=f"heads.{task}"))
        found = torch.autograd.grad(loss, [*shared, *head.values()], allow_unused=True)
        parts = zip(found[: len(shared)], shared, strict=True)
        rows.append(
            torch.cat([(torch.zeros_like(p) if g is None else g).ravel() for g, p in parts])
        )
        own |= dict(zip(head, found[len(shared) :], strict=True))
    jacobian = torch.stack(rows)
    draw = torch.Generator().manual_seed(3)
    run = make_gradients(made, spec, draw)
    made.module.zero_grad(set_to_none=True)
    _, surgery = run(STEP)
    assert surgery is not None
    torch.testing.assert_close(surgery.products.sum(0), jacobian @ jacobian.T, rtol=1e-3, atol=1e-3)
    torch.manual_seed(3)
    expected = PCGrad()(jacobian)
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).ravel() for p in shared])
    assert F.cosine_similarity(flat, expected, dim=0) > 1 - 1e-5
    assert (flat - expected).abs().max() <= 1e-3 * expected.abs().max()
    heads = {n: p.grad for n, p in made.module.named_parameters() if n.startswith("heads.")}
    assert_same(heads, own, rtol=1e-3, atol=1e-5)


def test_smart_draws_its_noise_from_a_generator_of_its_own(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=SMART)
    made = learner(spec, sources)
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(7)
        draw = torch.Generator().manual_seed(7)
        before = torch.get_rng_state(), draw.get_state()
        noted: list[float] = []
        run = make_gradients(made, spec, draw, seed=seed)
        for _ in range(2):
            noted += [batch.loss.item() for batch in run(STEP)[0]]
        assert torch.equal(torch.get_rng_state(), before[0])
        assert torch.equal(draw.get_state(), before[1])
        found.append(noted)
    assert found[0] == found[1] != found[2]
    assert found[0][:3] != found[0][3:], "each step has noise of its own"


def test_smart_in_bf16_has_a_finite_fp32_loss(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=SMART)
    made = learner(spec, sources)
    values: dict[bool, list[float]] = {}
    for half in (False, True):
        compute_in(made.module, "bf16" if half else "fp32")
        run = make_gradients(made, spec, torch.Generator())
        noted = [batch.loss for batch in run(STEP)[0]]
        assert all(loss.dtype == torch.float32 for loss in noted)
        values[half] = [loss.item() for loss in noted]
    assert values[True] == pytest.approx(values[False], rel=0.1)


def test_what_parts_measure_adds_up_to_the_batchs(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=SMART)
    run = make_gradients(learner(spec, sources), spec, torch.Generator(), room=1.0)
    shares: list[float] = []

    def penalty(
        task: str, rows: Tensor, output: Tensor, share: float, measure: bool
    ) -> tuple[Tensor, dict[str, Tensor]]:
        shares.append(share)
        value = rows.float().mean()
        return value, {"penalty": value} if measure else {}

    run.passes.penalty = penalty
    assert all(batch.measured == {} for batch in run(STEP)[0])
    run.passes.measure = True
    shares.clear()
    found, _ = run(STEP)
    assert shares == [1 / len(rows) for _, rows in STEP for _ in rows]
    for batch, (_, rows) in zip(found, STEP, strict=True):
        assert batch.measured["penalty"].item() == pytest.approx(rows.float().mean().item())
