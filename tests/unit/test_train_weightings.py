"""Task weightings: factors as torchjd's scalarizers have them, in every kind of step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
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
from minbert.train.weightings import Weighting

SCALARIZERS: dict[str, Callable[[], Any]] = {
    "dynamic_average": theirs.DWA,
    "geometric_mean": theirs.GeometricMean,
    "random": theirs.Random,
    "uncertainty": lambda: theirs.UW(3),
}
EPOCHS = [[[0.9, 2.0, 0.3], [0.7, 1.8, 0.4]], [[0.5, 1.9, 0.1]], [[0.4, 1.0, 0.2]], [[0.3, 1, 1]]]


def made(name: str, seed: int = 0) -> Weighting:
    found: Weighting = load_part("weighting", name)(3, generator(seed), CPU)
    return found


def test_every_weighting_is_compared() -> None:
    assert set(SCALARIZERS) == set(PARTS["weighting"])


@pytest.mark.parametrize("name", SCALARIZERS)
def test_factors_are_the_derivatives_of_torchjds_loss(name: str) -> None:
    ours, other = made(name, seed=7), SCALARIZERS[name]()
    torch.manual_seed(7)
    seen = []
    for epoch in EPOCHS:
        for step in epoch:
            losses = torch.tensor(step, requires_grad=True)
            other(losses).backward()
            factors = ours(losses.detach())
            torch.testing.assert_close(factors, losses.grad, rtol=1e-6, atol=1e-7)
            ours.after_step(losses.detach())
            seen.append(factors.tolist())
        ours.end_epoch()
        if name == "dynamic_average":
            other.step()
    assert seen[0] != seen[-1] or name == "uncertainty"


def test_log_variances_have_the_gradient_of_torchjds_loss() -> None:
    ours, other = made("uncertainty"), theirs.UW(3)
    values = torch.tensor([0.5, -1.0, 2.0])
    ours.log_variances.data.copy_(values)
    other.log_var.data.copy_(values)
    losses = torch.tensor([0.3, 0.2, 5.0], requires_grad=True)
    other(losses).backward()
    torch.testing.assert_close(ours(losses.detach()), losses.grad)
    torch.testing.assert_close(ours.log_variances.grad, other.log_var.grad)
    assert ours.parameters() == [ours.log_variances]


@pytest.mark.parametrize("shared_layers", ["all", 1, "none"])
@pytest.mark.parametrize("how", ["jointly", "apart", "in parts"])
@pytest.mark.parametrize("name", SCALARIZERS)
def test_a_steps_gradient_is_that_of_torchjds_loss(
    name: str, how: str, shared_layers: Any, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=shared_layers, weighting=name)
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
    assert run.fits_jointly(STEP) == (how == "jointly" and shared_layers != "none")
    assert (run.most_parts > 1) == (how == "in parts")
    assert_same(grads(model), wanted, rtol=1e-4, atol=1e-6)
    told = torch.stack([run.measured[task, "task_weight"] for task, _ in STEP])
    assert told.isfinite().all() and (told > 0).all()


def test_log_variances_are_learned_and_factors_recorded(
    make_spec: Any, run: Callable[..., Path]
) -> None:
    """The loss of STS is large at first: its log variance rises, and its factor falls."""
    optimiser = {"lr": 1e-2}
    spec = make_spec(
        ("sst", "sts"), epochs=3, weighting="uncertainty", optimiser=optimiser, still=True
    )
    history = pq.read_table(run(spec) / "history.parquet").to_pylist()
    of_sts = [row for row in history if (row["task"], row["metric"]) == ("sts", "task_weight")]
    factors = [row["value"] for row in of_sts if row["split"] == "train"]
    assert factors[0] == 0.5
    assert factors[-1] < 0.48
