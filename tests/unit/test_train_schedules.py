"""Schedules: the rate at each optimiser step."""

from __future__ import annotations

import math

import pytest
import torch
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from minbert.spec.parts import PARTS, load_part
from minbert.train.schedules import Setting

FALL = [1.0, 0.8, 0.6, 0.4, 0.2]
HALF_COSINE = [(1 + math.cos(math.pi * n / 8)) / 2 for n in range(8)]


def settings(name: str, steps: int, warmup: float = 0.0) -> list[Setting]:
    schedule = load_part("schedule", name)(steps, warmup)
    return [schedule(step) for step in range(steps)]


@pytest.mark.parametrize(
    ("name", "steps", "warmup", "expected"),
    [
        ("constant", 4, 0.0, [1.0] * 4),
        ("constant", 20, 0.2, [0.2, 0.4, 0.6, 0.8] + [1.0] * 16),
        ("linear", 5, 0.0, FALL),
        ("linear", 9, 0.444, [0.2, 0.4, 0.6, 0.8, *FALL]),
        ("cosine", 8, 0.0, HALF_COSINE),
        ("cosine", 10, 0.2, [1 / 3, 2 / 3, *HALF_COSINE]),
    ],
)
def test_by_hand(name: str, steps: int, warmup: float, expected: list[float]) -> None:
    found = settings(name, steps, warmup)
    assert [setting.factor for setting in found] == pytest.approx(expected)
    assert {setting.beta1 for setting in found} == {None}
    if name != "constant":  # The rate is zero only after the last step.
        after = load_part("schedule", name)(steps, warmup)(steps)
        assert after.factor == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.5, 0.33])
def test_onecycle_is_torchs(warmup: float) -> None:
    optimiser = AdamW([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    oracle = OneCycleLR(optimiser, max_lr=1e-3, total_steps=50, pct_start=warmup or 0.3)
    for factor, beta1 in settings("onecycle", 50, warmup):
        group = optimiser.param_groups[0]
        assert (1e-3 * factor, beta1) == pytest.approx((group["lr"], group["betas"][0]), rel=1e-6)
        optimiser.step()
        oracle.step()


@pytest.mark.parametrize(("steps", "warmup"), [(10, 0.1), (2, 0.5), (4, 0.25), (100, 0.01)])
def test_onecycle_with_a_rise_of_one_step(steps: int, warmup: float) -> None:
    found = settings("onecycle", steps, warmup)
    ends = found[0].factor, found[-1].factor
    assert ends == pytest.approx((1 / 25, 1 / 250_000))


@pytest.mark.parametrize("name", PARTS["schedule"])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("warmup", [0.0, 0.3, 0.9])
def test_short_runs(name: str, steps: int, warmup: float) -> None:
    assert all(0 < setting.factor <= 1 for setting in settings(name, steps, warmup))
