"""Task weightings: factors as torchjd's scalarizers have them, in every kind of step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from stepping import (
    CPU,
    STEP,
    WEIGHTS,
    assert_same,
    backward,
    generator,
    grads,
    task_loss,
    tiny_model,
)
from torchjd import scalarization as theirs

from minbert.spec.parts import PARTS, load_part
from minbert.train.step import Gradients

SCALARIZERS: dict[str, Callable[[], Any]] = {
    "random": theirs.Random,
    "uncertainty": lambda: theirs.UW(3),
}


@pytest.mark.parametrize("name", PARTS["weighting"])
def test_factors_are_the_derivatives_of_torchjds_loss(name: str) -> None:
    ours, other = load_part("weighting", name)(3, generator(7), CPU), SCALARIZERS[name]()
    torch.manual_seed(7)
    if name == "uncertainty":
        ours.log_variances.data = other.log_var.data = torch.tensor([0.5, -1.0, 2.0])
    for step in ([0.9, 2.0, 0.3], [0.5, 1.9, 0.1]):
        losses = torch.tensor(step, requires_grad=True)
        other.zero_grad()
        other(losses).backward()
        torch.testing.assert_close(ours(), losses.grad, rtol=1e-6, atol=1e-7)
        ours.learn(losses.detach())
    for ours_of, theirs_of in zip(ours.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours_of.grad, theirs_of.grad)


@pytest.mark.parametrize("how", ["jointly", "apart", "in parts"])
@pytest.mark.parametrize("name", SCALARIZERS)
def test_a_steps_gradient_is_that_of_torchjds_loss(
    name: str, how: str, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=1, weighting=name)
    model = tiny_model(spec, sources)
    losses = torch.stack([task_loss(model, spec, *batch) for batch in STEP])
    torch.manual_seed(7)
    wanted = backward(model, SCALARIZERS[name]()(losses))
    sizes = [model.activations(*batch) for batch in STEP]
    budgets = {
        "jointly": float("inf"),
        "apart": max(size.sum() for size in sizes),
        "in parts": max(size.max() for size in sizes) * 1.5,
    }
    model.module.zero_grad(set_to_none=True)
    run = Gradients(spec, model, 0, generator(7), budgets[how])
    run.measure = True
    run(STEP)
    assert set(run.weighting.parameters()) <= set(run.parameters())
    told = [run.measured[task, "task_weight"] for task, _ in STEP]
    assert name != "uncertainty" or told == [0.5, 1.0, 0.05]
    assert run.fits_jointly(STEP) == (how == "jointly")
    assert (run.most_parts > 1) == (how == "in parts")
    assert_same(grads(model), wanted, rtol=1e-4, atol=1e-6)
