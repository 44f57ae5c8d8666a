"""Schedules: the rate at each optimiser step."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import OneCycleLR

from minbert.grid.parts import PARTS, load_part

Point = tuple[float, float]


def optimiser(lr: float = 1.0) -> AdamW:
    return AdamW([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def walk(chosen: Optimizer, schedule: Any, steps: int) -> list[Point]:
    """Return the rate and beta 1 that each of `steps` steps is made with."""
    points = []
    for _ in range(steps):
        group = chosen.param_groups[0]
        points.append((group["lr"], group["betas"][0]))
        chosen.step()
        schedule.step()
    return points


def rates(name: str, steps: int, warmup: float = 0.0, lr: float = 1.0) -> list[float]:
    chosen = optimiser(lr)
    schedule = load_part("schedule", name)(chosen, steps, warmup)
    return [rate for rate, _ in walk(chosen, schedule, steps)]


def test_constant() -> None:
    assert rates("constant", 4, lr=2e-5) == [2e-5] * 4


@pytest.mark.parametrize("name", ["constant", "linear", "cosine"])
def test_warmup_rises_in_even_steps_to_the_full_rate(name: str) -> None:
    assert rates(name, 20, 0.2)[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_linear() -> None:
    assert rates("linear", 5) == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
    assert rates("linear", 10, 0.5)[5:] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])


def test_cosine() -> None:
    expected = [(1 + math.cos(math.pi * n / 8)) / 2 for n in range(8)]
    assert rates("cosine", 8) == pytest.approx(expected)
    assert rates("cosine", 8)[4] == pytest.approx(0.5)
    assert rates("cosine", 10, 0.2)[2:] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_the_rate_is_zero_only_after_the_last_step(name: str) -> None:
    chosen = optimiser()
    schedule = load_part("schedule", name)(chosen, 7, 0.1)
    assert min(rate for rate, _ in walk(chosen, schedule, 7)) > 0
    assert chosen.param_groups[0]["lr"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.5])
def test_onecycle_is_torchs(warmup: float) -> None:
    ours, theirs = optimiser(1e-3), optimiser(1e-3)
    schedule = load_part("schedule", "onecycle")(ours, 50, warmup)
    oracle = OneCycleLR(theirs, max_lr=1e-3, total_steps=50, pct_start=warmup or 0.3)
    expected = walk(theirs, oracle, 50)
    found = walk(ours, schedule, 50)
    for part in (0, 1):
        assert [p[part] for p in found] == pytest.approx([p[part] for p in expected], rel=1e-6)
    assert found[0][0] == pytest.approx(1e-3 / 25)
    assert max(rate for rate, _ in found) == pytest.approx(1e-3)
    assert found[-1][0] == pytest.approx(1e-3 / 250_000, rel=1e-6)
    assert min(beta for _, beta in found) == pytest.approx(0.85)


@pytest.mark.parametrize(("steps", "warmup"), [(10, 0.1), (2, 0.5), (4, 0.25), (100, 0.01)])
def test_onecycle_with_a_rise_of_one_step(steps: int, warmup: float) -> None:
    found = rates("onecycle", steps, warmup)
    assert found[0] == pytest.approx(1 / 25)
    assert found[-1] == pytest.approx(1 / 250_000)


@pytest.mark.parametrize("name", PARTS["schedule"])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("warmup", [0.0, 0.3, 0.9])
def test_short_runs(name: str, steps: int, warmup: float) -> None:
    found = rates(name, steps, warmup)
    assert all(0 < rate <= 1 for rate in found)
