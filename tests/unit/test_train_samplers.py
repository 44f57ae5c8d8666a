"""Samplers: which rows make up an epoch's steps; schedules: the rate at each of them."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from stepping import generator
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from minbert.base.errors import UserError
from minbert.spec.parts import load_part
from minbert.train.samplers import EpochSampler, Step
from minbert.train.schedules import Setting

SIZES = {"sst": 10, "para": 23, "sts": 7}
TASKS = list(SIZES)
ORDER = {"order": ["sts", "sst", "para"], "examples": 5}
PASSES = ["sst"] * 3 + ["para"] * 6 + ["sts"] * 2
UNEQUAL = {"sst": 100, "para": 1600, "sts": 25}
DRAWN: dict[str, dict[str, Any]] = {"temperature": {"temperature": 2.0}, "annealed": {}}


def sampler(
    make_spec: Any,
    name: str,
    sizes: dict[str, int] = SIZES,
    *,
    tasks: Any = None,
    seed: int = 3,
    epochs: int = 1,
    **chosen: Any,
) -> EpochSampler:
    given = {task: (tasks or {}).get(task, {}) for task in SIZES}
    chosen = DRAWN.get(name, {}) | chosen
    spec = make_spec(given, sampler={"name": name, **chosen}, epochs=epochs)
    made: EpochSampler = load_part("sampler", name)(spec, sizes, generator(seed))
    return made


def rows_of(steps: list[Step], task: str) -> list[int]:
    return [row for step in steps for name, rows in step if name == task for row in rows.tolist()]


def plain(steps: list[Step]) -> list[list[tuple[str, list[int]]]]:
    return [[(task, rows.tolist()) for task, rows in step] for step in steps]


@pytest.mark.parametrize(
    ("name", "tasks", "chosen", "expected", "in_order"),
    [
        ("unified", {"para": {"batch_size": 10}}, {}, [[4, 10, 4], [3, 7, 3]], TASKS * 2),
        ("alternating", {}, {}, [[4]] * 3 + [[3]] * 3, TASKS * 2),
        ("recycled", {"para": {"trained": False}}, {}, [[4, 4]] * 2 + [[2, 4]], ["sst", "sts"] * 3),
        ("sequential", {}, {}, [[4], [4], [2], *[[4]] * 5, [3], [4], [3]], PASSES),
        ("sequential", {}, ORDER, [[4], [1]] * 3, ["sts"] * 2 + ["sst"] * 2 + ["para"] * 2),
    ],
)  # fmt: skip
def test_steps_of_an_epoch(
    name: str, tasks: Any, chosen: Any, expected: Any, in_order: list[str], make_spec: Any
) -> None:
    made = sampler(make_spec, name, tasks=tasks, **chosen)
    for _ in range(2):
        steps = list(made.epoch())
        assert made.steps == len(steps)
        assert [[len(rows) for _, rows in step] for step in steps] == expected
        assert [task for step in steps for task, _ in step] == in_order


@pytest.mark.parametrize(
    ("name", "chosen", "subset", "steps"),
    [
        *(("unified", {}, 7, 2), ("recycled", {}, 23, 6), ("sequential", {}, 23, 11)),
        ("unified", {"share": 0.5}, 4, 1),  # of the smallest, which has 7
        ("recycled", {"examples": 12}, 12, 3),
        ("sequential", {"share": 0.5, "examples": 6}, 6, 2 + 2 + 1),
        ("unified", {"steps": 40}, 160, 40),
        ("recycled", {"steps": 5}, 20, 5),
        ("sequential", {"steps": 1}, 4, 3),  # one of each task at least
        ("sequential", {"steps": 22}, 48, 22),
        *(("alternating", {"steps": n}, 4 * -(-n // 3), 3 * -(-n // 3)) for n in (1, 42)),
    ],
)
def test_rows_are_used_equally_often_and_each_epoch_is_drawn_anew(
    name: str, chosen: dict[str, Any], subset: int, steps: int, make_spec: Any
) -> None:
    made = sampler(make_spec, name, **chosen)
    epochs = [list(made.epoch()) for _ in range(12)]
    assert {len(drawn) for drawn in epochs} == {made.steps} == {steps}
    assert {len(rows_of(drawn, "para")) for drawn in epochs} == {subset}
    for task, size in SIZES.items():
        orders = [rows_of(drawn, task) for drawn in epochs]
        assert len({tuple(order) for order in orders}) > 6
        for order in orders:
            counts = Counter(order)
            assert max(counts.values()) - min(counts[row] for row in range(size)) <= 1


@pytest.mark.parametrize("found", [1, 3])
def test_an_epoch_of_other_steps_than_planned_is_refused(found: int, make_spec: Any) -> None:
    made = sampler(make_spec, "unified")
    steps = [*made.epoch()] * 2
    made.epoch = lambda: iter(steps[:found])  # type: ignore[method-assign]
    told = f"sampler 'unified' yields {found} steps in an epoch, but `epoch_of` .* says 2"
    with pytest.raises(UserError, match=told):
        next(made.rest(0))


def assert_drawn_by(steps: list[Step], sizes: dict[str, float]) -> None:
    """Assert that tasks come within four deviations of what `sizes` give."""
    found = Counter(task for ((task, _),) in steps)
    n, whole = found.total(), sum(sizes.values())
    for task, size in sizes.items():
        p = size / whole
        assert abs(found[task] - n * p) <= 4 * (n * p * (1 - p)) ** 0.5


@pytest.mark.parametrize(
    ("temperature", "chosen", "weights"),
    [
        (1.0, {"examples": 100}, {"sst": 100.0, "para": 100.0, "sts": 25.0}),
        (2.0, {}, {"sst": 10.0, "para": 40.0, "sts": 5.0}),
    ],
)
def test_tasks_come_in_proportion_to_a_power_of_their_size(
    temperature: float, chosen: Any, weights: dict[str, float], make_spec: Any
) -> None:
    given = {"temperature": temperature, "steps": 6000, **chosen}
    made = sampler(make_spec, "temperature", UNEQUAL, **given)
    steps = list(made.epoch())
    assert_drawn_by(steps, weights)
    assert len(steps) == made.steps
    assert {len(rows) for ((_, rows),) in steps} == {4}
    for task, size in UNEQUAL.items():  # all rows come before one comes twice
        rows = rows_of(steps, task)
        assert all(len({*rows[n : n + size]}) == size for n in range(0, len(rows) - size, size))


def test_annealing_goes_from_proportional_to_a_fifth_of_the_power(make_spec: Any) -> None:
    made = sampler(make_spec, "annealed", UNEQUAL, epochs=5, steps=4000)
    for exponent in (1.0, 0.8, 0.6, 0.4, 0.2):
        assert_drawn_by(list(made.rest(0)), {task: n**exponent for task, n in UNEQUAL.items()})


FALL = [1.0, 0.8, 0.6, 0.4, 0.2]
HALF_COSINE = [(1 + math.cos(math.pi * n / 8)) / 2 for n in range(8)]


def rates(name: str, steps: int, warmup: float = 0.0) -> list[Setting]:
    schedule = load_part("schedule", name)(steps, warmup)
    return [schedule(step) for step in range(steps)]


@pytest.mark.parametrize(
    ("name", "steps", "warmup", "expected"),
    [
        ("constant", 20, 0.2, [0.2, 0.4, 0.6, 0.8] + [1.0] * 16),
        ("linear", 5, 0.0, FALL),
        ("linear", 9, 0.444, [0.2, 0.4, 0.6, 0.8, *FALL]),
        ("cosine", 10, 0.2, [1 / 3, 2 / 3, *HALF_COSINE]),
    ],
)
def test_schedules_by_hand(name: str, steps: int, warmup: float, expected: list[float]) -> None:
    found = rates(name, steps, warmup)
    assert [setting.factor for setting in found] == pytest.approx(expected)
    assert {setting.beta1 for setting in found} == {None}


# Of four steps, two of which rise, the second has the full rate.
@pytest.mark.parametrize(("steps", "warmup"), [(50, 0.0), (50, 0.1), (50, 0.33), (4, 0.5)])
def test_onecycle_is_torchs(steps: int, warmup: float) -> None:
    optimiser = AdamW([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    oracle = OneCycleLR(optimiser, max_lr=1e-3, total_steps=steps, pct_start=warmup or 0.3)
    for factor, beta1 in rates("onecycle", steps, warmup):
        group = optimiser.param_groups[0]
        assert (1e-3 * factor, beta1) == pytest.approx((group["lr"], group["betas"][0]), rel=1e-6)
        optimiser.step()
        oracle.step()
