"""Schedules: the rate at each optimiser step."""

from __future__ import annotations

import math

import pytest
import torch
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from minbert.spec.parts import PARTS, load_part
from minbert.train.schedules import Setting


def settings(name: str, steps: int, warmup: float = 0.0) -> list[Setting]:
    schedule = load_part("schedule", name)(steps, warmup)
    return [schedule(step) for step in range(steps)]


def rates(name: str, steps: int, warmup: float = 0.0) -> list[float]:
    return [setting.factor for setting in settings(name, steps, warmup)]


def test_constant() -> None:
    assert settings("constant", 4) == [Setting(1.0, None)] * 4


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
    schedule = load_part("schedule", name)(7, 0.1)
    assert min(schedule(step).factor for step in range(7)) > 0
    assert schedule(7).factor == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.5, 0.33])
def test_onecycle_is_torchs(warmup: float) -> None:
    optimiser = AdamW([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    oracle = OneCycleLR(optimiser, max_lr=1e-3, total_steps=50, pct_start=warmup or 0.3)
    found = settings("onecycle", 50, warmup)
    for factor, beta1 in found:
        group = optimiser.param_groups[0]
        assert (1e-3 * factor, beta1) == pytest.approx((group["lr"], group["betas"][0]), rel=1e-6)
        optimiser.step()
        oracle.step()
    assert found[0].factor == pytest.approx(1 / 25)
    assert found[-1].factor == pytest.approx(1 / 250_000, rel=1e-6)
    assert max(setting.factor for setting in found) == pytest.approx(1.0, abs=2e-3)


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
