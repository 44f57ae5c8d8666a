"""Samplers: which rows make up an epoch's steps; schedules: the rate at each of them."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stepping import generator
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from minbert.spec.epochs import EPOCHS
from minbert.spec.parts import PARTS, load_part
from minbert.train.samplers import EpochSampler, Step
from minbert.train.schedules import Setting

SIZES = {"sst": 10, "para": 23, "sts": 7}
TASKS = list(SIZES)
ORDER = {"order": ["sts", "sst", "para"], "examples": 5}
PASSES = ["sst"] * 3 + ["para"] * 6 + ["sts"] * 2
UNEQUAL = {"sst": 100, "para": 1600, "sts": 25}
PAPER = {"sst": 8544, "para": 141_506, "sts": 6040}
BATCHES = {"sst": {"batch_size": 8}, "para": {"batch_size": 128}, "sts": {"batch_size": 8}}
FIXED = ["unified", "alternating", "recycled", "sequential"]
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


def test_every_sampler_is_covered() -> None:
    assert {*FIXED, *DRAWN} == set(PARTS["sampler"]) == set(EPOCHS)


@pytest.mark.parametrize(
    ("name", "tasks", "chosen", "expected", "in_order"),
    [
        ("unified", {}, {}, [[4, 4, 4], [3, 3, 3]], TASKS * 2),
        ("unified", {"sts": {"trained": False}}, {}, [[4, 4], [4, 4], [2, 2]], ["sst", "para"] * 3),
        ("unified", {"para": {"batch_size": 10}}, {}, [[4, 10, 4], [3, 7, 3]], TASKS * 2),
        ("alternating", {}, {}, [[4]] * 3 + [[3]] * 3, TASKS * 2),
        ("recycled", {}, {}, [[4, 4, 4]] * 5 + [[4, 3, 4]], TASKS * 6),
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


@pytest.mark.parametrize("name", FIXED)
def test_rows_are_used_equally_often_and_each_epoch_is_drawn_anew(
    name: str, make_spec: Any
) -> None:
    made = sampler(make_spec, name)
    epochs = [list(made.epoch()) for _ in range(12)]
    for task, size in SIZES.items():
        orders = [rows_of(steps, task) for steps in epochs]
        assert len({tuple(order) for order in orders}) == 12
        assert set().union(*orders) == set(range(size))
        for order in orders:
            counts = Counter(order)
            assert max(counts.values()) - min(counts[row] for row in range(size)) <= 1


@pytest.mark.parametrize(
    ("name", "chosen", "subset", "steps"),
    [
        ("unified", {"examples": 5}, 5, 2),
        ("unified", {"examples": 30}, 30, 8),
        ("unified", {"share": 0.5}, 4, 1),  # of the smallest, which has 7
        ("recycled", {"examples": 12}, 12, 3),
        ("recycled", {"examples": 1000}, 23, 6),
        ("sequential", {"examples": 9}, 9, 3 + 3 + 2),
        ("sequential", {"share": 0.5, "examples": 6}, 6, 2 + 2 + 1),
    ],
)
def test_a_subset_is_drawn_anew_each_epoch(
    name: str, chosen: dict[str, Any], subset: int, steps: int, make_spec: Any
) -> None:
    made = sampler(make_spec, name, **chosen)
    epochs = [rows_of(list(made.epoch()), "para") for _ in range(12)]
    assert made.steps == steps and {len(rows) for rows in epochs} == {subset}
    assert all(len(set(rows)) == min(subset, 23) for rows in epochs)
    assert len(set().union(*epochs)) > 15
    assert subset >= 23 or len({frozenset(rows) for rows in epochs}) > 6


def test_the_papers_random_subsets(make_spec: Any) -> None:
    """minibert-unleashed, section 4.3: 140,000 pairs by 128; 49.5 % of the course's split."""
    given = {"sizes": PAPER, "tasks": BATCHES}
    assert sampler(make_spec, "recycled", **given, examples=140_000).steps == 1094
    share = sampler(make_spec, "recycled", **given, share=0.495)
    assert (share.examples["para"], share.steps) == (70_045, 548)


three_batches = st.tuples(*[st.integers(1, 12)] * 3)


@settings(max_examples=60)
@given(
    batches=three_batches,
    examples=st.none() | st.integers(1, 60),
    seed=st.integers(0, 2**32),
)
def test_alternating_steps_are_unifieds_batches(
    make_spec: Any, batches: tuple[int, int, int], examples: int | None, seed: int
) -> None:
    tasks = {task: {"batch_size": b} for task, b in zip(SIZES, batches, strict=True)}
    given = {"tasks": tasks, "seed": seed, "examples": examples}
    made, whole = (sampler(make_spec, name, **given) for name in ("alternating", "unified"))
    assert (made.steps, made.examples) == (3 * whole.steps, whole.examples)
    for _ in range(2):
        steps = [[batch] for step in whole.epoch() for batch in step]
        assert plain(list(made.epoch())) == plain(steps)
        assert len(steps) == made.steps


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("steps", [1, 5, 40])
def test_given_steps_are_those_of_an_epoch_whatever_the_sizes(
    name: str, steps: int, make_spec: Any
) -> None:
    tasks = {"sst": {"batch_size": 2}, "para": {"batch_size": 6}}
    made = sampler(make_spec, name, tasks=tasks, steps=steps)
    drawn = list(made.epoch())
    # Sequential: five, four and two steps are a pass; each task has one at least.
    rounded = {"sequential": {1: 3}, "alternating": {1: 3, 5: 6, 40: 42}}
    assert len(drawn) == made.steps == rounded.get(name, {}).get(steps, steps)
    for task, size in SIZES.items():
        counts = Counter(rows_of(drawn, task))
        batches = sum(name == task for step in drawn for name, _ in step)
        assert counts.total() == batches * made.batch[task]
        assert max(counts.values()) - min(counts[row] for row in range(size)) <= 1


@pytest.mark.parametrize("name", [*FIXED, *DRAWN])
def test_an_epoch_goes_on_where_it_was_cut_and_draws_from_its_generator_alone(
    name: str, make_spec: Any
) -> None:
    before = torch.get_rng_state()
    whole, cut, again, other = (
        sampler(make_spec, name, epochs=3, seed=seed) for seed in (8, 8, 9, 9)
    )
    expected = [plain(list(whole.rest(0))) for _ in range(3)]
    list(cut.rest(0))
    steps = cut.rest(0)
    seen = [next(steps) for _ in range(2)]
    again.load_state_dict(cut.state_dict())
    assert plain(seen) + plain(list(again.rest(2))) == expected[1]
    assert plain(list(again.rest(0))) == expected[2]
    assert expected[0] != expected[1] and expected[0] != plain(list(other.rest(0)))
    assert torch.equal(torch.get_rng_state(), before)


def assert_drawn_by(steps: list[Step], sizes: dict[str, float]) -> dict[str, float]:
    """Assert that tasks come within four deviations of what `sizes` give; return their shares."""
    found = Counter(task for ((task, _),) in steps)
    n, whole = found.total(), sum(sizes.values())
    shares = {task: size / whole for task, size in sizes.items()}
    for task, p in shares.items():
        assert abs(found[task] - n * p) <= 4 * (n * p * (1 - p)) ** 0.5
    return shares


@pytest.mark.parametrize(
    ("temperature", "chosen", "weights"),
    [
        (1.0, {}, {"sst": 100.0, "para": 1600.0, "sts": 25.0}),
        (1.0, {"examples": 100}, {"sst": 100.0, "para": 100.0, "sts": 25.0}),
        (2.0, {}, {"sst": 10.0, "para": 40.0, "sts": 5.0}),
        (1e9, {}, {"sst": 1.0, "para": 1.0, "sts": 1.0}),
    ],
)
def test_tasks_come_in_proportion_to_a_power_of_their_size(
    temperature: float, chosen: Any, weights: dict[str, float], make_spec: Any
) -> None:
    given = {"temperature": temperature, "steps": 6000, **chosen}
    made = sampler(make_spec, "temperature", UNEQUAL, **given)
    steps = list(made.epoch())
    shares = assert_drawn_by(steps, weights)
    told = {task: n / sum(made.examples.values()) for task, n in made.examples.items()}
    assert len(steps) == made.steps and told == pytest.approx(shares, abs=1e-3)


def test_a_step_is_a_full_batch_and_all_rows_come_before_one_comes_twice(make_spec: Any) -> None:
    steps = list(sampler(make_spec, "temperature", UNEQUAL).epoch())
    assert len(steps) == sampler(make_spec, "sequential", UNEQUAL).steps
    assert {len(rows) for ((_, rows),) in steps} == {4}
    for task, size in UNEQUAL.items():
        rows = rows_of(steps, task)
        assert rows
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            assert len(set(part)) == len(part) and set(part) <= set(range(size))


@pytest.mark.parametrize("exponents", [(1.0, 0.8, 0.6, 0.4, 0.2), (1.0,)])
def test_annealing_goes_from_proportional_to_a_fifth_of_the_power(
    exponents: tuple[float, ...], make_spec: Any
) -> None:
    made = sampler(make_spec, "annealed", UNEQUAL, epochs=len(exponents), steps=4000)
    planned: Counter[str] = Counter()
    for exponent in exponents:
        weights = {task: n**exponent for task, n in UNEQUAL.items()}
        shares = assert_drawn_by(list(made.rest(0)), weights)
        planned.update({task: 4000 * 4 * share / len(exponents) for task, share in shares.items()})
    assert made.examples == pytest.approx(planned, abs=1), "planned by the mean of the epochs"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"sampler": {"name": "temperature"}}, "'sampler.temperature' .* go together"),
    ({"sampler": {"name": "annealed", "temperature": 2.0}}, "go together"),
    ({"sampler": {"name": "annealed"}, "surgery": "pcgrad"}, "or more tasks in each step"),
    ({"trainable": "lora"}, "go together"),
    ({"lora": {"rank": 2}}, "go together"),
    ({"trainable": "adapters", "lora": {}}, "go together"),
]


@pytest.mark.parametrize(("stage", "message"), REFUSED)
def test_what_does_not_go_together_is_refused(stage: Any, message: str, make_spec: Any) -> None:
    with pytest.raises(ValueError, match=message):
        make_spec(**stage)


FALL = [1.0, 0.8, 0.6, 0.4, 0.2]
HALF_COSINE = [(1 + math.cos(math.pi * n / 8)) / 2 for n in range(8)]


def rates(name: str, steps: int, warmup: float = 0.0) -> list[Setting]:
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
def test_schedules_by_hand(name: str, steps: int, warmup: float, expected: list[float]) -> None:
    found = rates(name, steps, warmup)
    assert [setting.factor for setting in found] == pytest.approx(expected)
    assert {setting.beta1 for setting in found} == {None}
    if name != "constant":  # The rate is zero only after the last step.
        after = load_part("schedule", name)(steps, warmup)(steps)
        assert after.factor == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.5, 0.33])
def test_onecycle_is_torchs(warmup: float) -> None:
    optimiser = AdamW([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    oracle = OneCycleLR(optimiser, max_lr=1e-3, total_steps=50, pct_start=warmup or 0.3)
    for factor, beta1 in rates("onecycle", 50, warmup):
        group = optimiser.param_groups[0]
        assert (1e-3 * factor, beta1) == pytest.approx((group["lr"], group["betas"][0]), rel=1e-6)
        optimiser.step()
        oracle.step()


@pytest.mark.parametrize("name", PARTS["schedule"])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("warmup", [0.0, 0.3, 0.9])
def test_short_runs(name: str, steps: int, warmup: float) -> None:
    assert all(0 < setting.factor <= 1 for setting in rates(name, steps, warmup))
