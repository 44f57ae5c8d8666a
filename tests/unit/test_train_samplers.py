"""Samplers: which rows make up an epoch's steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minbert.spec.stage import StageSpec
from minbert.train.samplers import Step, draw
from minbert.train.samplers.alternating import Alternating
from minbert.train.samplers.recycled import Recycled
from minbert.train.samplers.sequential import Sequential
from minbert.train.samplers.unified import Unified

SIZES = {"sst": 10, "para": 23, "sts": 7}
KINDS = [Unified, Alternating, Recycled, Sequential]


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows_of(steps: list[Step], task: str) -> list[int]:
    return [row for step in steps for name, rows in step if name == task for row in rows.tolist()]


def plain(steps: list[Step]) -> list[list[tuple[str, list[int]]]]:
    return [[(task, rows.tolist()) for task, rows in step] for step in steps]


def unified(make_spec: Any, examples: int | None = None, **tasks: dict[str, Any]) -> Unified:
    chosen = {task: tasks.get(task, {}) for task in SIZES}
    spec = make_spec(chosen, sampler={"name": "unified", "examples": examples})
    return Unified(spec, SIZES, generator())


def recycled(make_spec: Any, examples: int | None = None, **tasks: dict[str, Any]) -> Recycled:
    chosen = {task: tasks.get(task, {}) for task in SIZES}
    spec = make_spec(chosen, sampler={"name": "recycled", "examples": examples})
    return Recycled(spec, SIZES, generator())


def sequential(make_spec: Any, **sampler: Any) -> Sequential:
    return Sequential(make_spec(sampler={"name": "sequential", **sampler}), SIZES, generator())


@pytest.mark.parametrize("count", [1, 6, 7, 8, 14, 20])
def test_draw_takes_no_row_twice_before_all_came_once(count: int) -> None:
    rows = draw(7, count, generator())
    assert rows.dtype == torch.int64 and len(rows) == count
    for start in range(0, count, 7):
        part = rows[start : start + 7].tolist()
        assert len(set(part)) == len(part) and set(part) <= set(range(7))


def test_unified_steps_hold_a_batch_of_each_task(make_spec: Any) -> None:
    sampler = unified(make_spec)
    steps = list(sampler.epoch())
    assert sampler.steps == len(steps) == 2
    assert [[(t, len(r)) for t, r in step] for step in steps] == [
        [("sst", 4), ("para", 4), ("sts", 4)],
        [("sst", 3), ("para", 3), ("sts", 3)],
    ]
    for task, size in SIZES.items():
        rows = rows_of(steps, task)
        assert len(set(rows)) == len(rows) == 7 and max(rows) < size


def test_unified_draws_larger_tasks_anew_each_epoch(make_spec: Any) -> None:
    sampler = unified(make_spec)
    epochs = [list(sampler.epoch()) for _ in range(12)]
    assert {row for steps in epochs for row in rows_of(steps, "para")} == set(range(23))
    assert all(set(rows_of(steps, "sts")) == set(range(7)) for steps in epochs)


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_epochs_are_shuffled_alike(kind: Any, make_spec: Any) -> None:
    sampler = kind(make_spec(sampler={"name": kind.__name__.lower()}), SIZES, generator())
    epochs = [list(sampler.epoch()) for _ in range(5)]
    for task in SIZES:
        assert len({tuple(rows_of(steps, task)) for steps in epochs}) == 5


@pytest.mark.parametrize(("examples", "steps"), [(5, 2), (8, 2), (16, 4), (30, 8)])
def test_unified_examples_below_and_above_the_size(
    examples: int, steps: int, make_spec: Any
) -> None:
    sampler = unified(make_spec, examples)
    epoch = list(sampler.epoch())
    assert sampler.steps == len(epoch) == steps
    for task, size in SIZES.items():
        counts = Counter(rows_of(epoch, task))
        assert counts.total() == examples
        assert all(examples // size <= counts[row] <= -(-examples // size) for row in range(size))


def test_unified_with_unequal_batches(make_spec: Any) -> None:
    sampler = unified(make_spec, para={"batch_size": 10})
    steps = list(sampler.epoch())
    assert [[len(rows) for _, rows in step] for step in steps] == [[4, 10, 4], [3, 7, 3]]
    assert len(set(rows_of(steps, "para"))) == 17


@settings(max_examples=60)
@given(
    examples=st.integers(1, 60),
    batches=st.tuples(*[st.integers(1, 12)] * 3),
    seed=st.integers(0, 2**32),
)
def test_unified_steps_are_complete_whatever_the_sizes(
    make_spec: Any, examples: int, batches: tuple[int, int, int], seed: int
) -> None:
    tasks = {task: {"batch_size": b} for task, b in zip(SIZES, batches, strict=True)}
    spec = make_spec(tasks, sampler={"examples": examples})
    sampler = Unified(spec, SIZES, generator(seed))
    steps = list(sampler.epoch())
    assert len(steps) == sampler.steps
    for step in steps:
        assert [task for task, _ in step] == list(SIZES)
        assert all(1 <= len(rows) <= b for (_, rows), b in zip(step, batches, strict=True))


@settings(max_examples=60)
@given(
    examples=st.none() | st.integers(1, 60),
    given_steps=st.none() | st.integers(1, 60),
    batches=st.tuples(*[st.integers(1, 12)] * 3),
    seed=st.integers(0, 2**32),
)
def test_alternating_steps_are_the_batches_of_unified_ones_in_turn(
    make_spec: Any,
    examples: int | None,
    given_steps: int | None,
    batches: tuple[int, int, int],
    seed: int,
) -> None:
    tasks = {task: {"batch_size": b} for task, b in zip(SIZES, batches, strict=True)}
    chosen = {"examples": examples, "steps": given_steps}
    sampler = Alternating(
        make_spec(tasks, sampler={"name": "alternating", **chosen}), SIZES, generator(seed)
    )
    if given_steps:  # of each task the same number, and as few as that takes
        assert given_steps <= sampler.steps < given_steps + 3
        chosen["steps"] = sampler.steps // 3
    whole = Unified(make_spec(tasks, sampler=chosen), SIZES, generator(seed))
    assert (sampler.steps, sampler.examples) == (3 * whole.steps, whole.examples)
    for _ in range(2):
        steps = [[batch] for step in whole.epoch() for batch in step]
        assert plain(list(sampler.epoch())) == plain(steps)
        assert len(steps) == sampler.steps


def test_unified_leaves_out_untrained_tasks(make_spec: Any) -> None:
    steps = list(unified(make_spec, sts={"trained": False}).epoch())
    assert len(steps) == 3
    assert all([task for task, _ in step] == ["sst", "para"] for step in steps)


def test_recycled_is_one_pass_over_the_largest_task(make_spec: Any) -> None:
    sampler = recycled(make_spec)
    steps = list(sampler.epoch())
    assert sampler.steps == len(steps) == 6
    full = [("sst", 4), ("para", 4), ("sts", 4)]
    sizes = [[(t, len(r)) for t, r in step] for step in steps]
    assert sizes == [full] * 5 + [[("sst", 4), ("para", 3), ("sts", 4)]]
    assert sorted(rows_of(steps, "para")) == list(range(23))
    for task, often in (("sst", {2, 3}), ("sts", {3, 4})):
        counts = Counter(rows_of(steps, task))
        assert len(counts) == SIZES[task] and set(counts.values()) == often


def test_recycled_rows_come_round_in_another_order_each_time(make_spec: Any) -> None:
    sampler = recycled(make_spec, sts={"batch_size": 7})
    rows = [row for _ in range(2) for row in rows_of(list(sampler.epoch()), "sts")]
    rounds = [tuple(rows[n : n + 7]) for n in range(0, len(rows), 7)]
    assert len(rounds) == len(set(rounds)) == 12
    assert all(sorted(order) == list(range(7)) for order in rounds)


def test_recycled_examples_are_a_subset_drawn_anew_each_epoch(make_spec: Any) -> None:
    sampler = recycled(make_spec, 12, para={"batch_size": 6})
    epochs = [list(sampler.epoch()) for _ in range(8)]
    assert sampler.steps == 2 and all(len(steps) == 2 for steps in epochs)
    subsets = [frozenset(rows_of(steps, "para")) for steps in epochs]
    assert all(len(rows) == 12 for rows in subsets)
    assert len(set(subsets)) == 8 and frozenset.union(*subsets) == set(range(23))


def test_recycled_examples_beyond_the_largest_task_are_one_pass(make_spec: Any) -> None:
    steps = list(recycled(make_spec, 1000).epoch())
    assert sorted(rows_of(steps, "para")) == list(range(23))


def test_the_papers_random_subsets_have_1094_steps(make_spec: Any) -> None:
    """minibert-unleashed, section 4.3: 140,000 pairs by 128, the small tasks by 8."""
    tasks = {"sst": {"batch_size": 8}, "para": {"batch_size": 128}, "sts": {"batch_size": 8}}
    spec = make_spec(tasks, sampler={"name": "recycled", "examples": 140_000})
    sizes = {"sst": 8544, "para": 141_506, "sts": 6040}
    assert Recycled(spec, sizes, generator()).steps == 1094


@settings(max_examples=60)
@given(
    examples=st.none() | st.integers(1, 60),
    sizes=st.tuples(*[st.integers(1, 40)] * 3),
    batches=st.tuples(*[st.integers(1, 12)] * 3),
    seed=st.integers(0, 2**32),
)
def test_recycled_rows_are_used_equally_often_whatever_the_sizes(
    make_spec: Any,
    examples: int | None,
    sizes: tuple[int, int, int],
    batches: tuple[int, int, int],
    seed: int,
) -> None:
    tasks = {task: {"batch_size": b} for task, b in zip(SIZES, batches, strict=True)}
    spec = make_spec(tasks, sampler={"name": "recycled", "examples": examples})
    there = dict(zip(SIZES, sizes, strict=True))
    sampler = Recycled(spec, there, generator(seed))
    steps = list(sampler.epoch())
    assert len(steps) == sampler.steps
    largest = max(there, key=lambda task: there[task])
    for (task, size), batch in zip(there.items(), batches, strict=True):
        counts = Counter(rows_of(steps, task))
        passed = min(examples or size, size) if task == largest else len(steps) * batch
        assert counts.total() == passed
        assert all(passed // size <= counts[row] <= -(-passed // size) for row in range(size))
    for step in steps:
        assert [task for task, _ in step] == list(SIZES)
        assert all(1 <= len(rows) <= b for (_, rows), b in zip(step, batches, strict=True))


def test_recycled_leaves_out_untrained_tasks(make_spec: Any) -> None:
    steps = list(recycled(make_spec, para={"trained": False}).epoch())
    assert len(steps) == 3
    assert all([task for task, _ in step] == ["sst", "sts"] for step in steps)
    assert sorted(rows_of(steps, "sst")) == list(range(10))


def test_sequential_passes_over_each_task_once(make_spec: Any) -> None:
    sampler = sequential(make_spec)
    steps = list(sampler.epoch())
    assert sampler.steps == len(steps) == 3 + 6 + 2
    assert [task for step in steps for task, _ in step] == ["sst"] * 3 + ["para"] * 6 + ["sts"] * 2
    assert [len(rows) for step in steps for _, rows in step] == [4, 4, 2, *[4] * 5, 3, 4, 3]
    for task, size in SIZES.items():
        assert sorted(rows_of(steps, task)) == list(range(size))


def test_sequential_in_the_order_that_is_asked_for(make_spec: Any) -> None:
    steps = list(sequential(make_spec, order=["sts", "sst", "para"]).epoch())
    seen = list(dict.fromkeys(task for step in steps for task, _ in step))
    assert seen == ["sts", "sst", "para"]


def test_sequential_cap(make_spec: Any) -> None:
    sampler = sequential(make_spec, examples=9)
    epochs = [list(sampler.epoch()) for _ in range(8)]
    assert {len(steps) for steps in epochs} == {sampler.steps} == {3 + 3 + 2}
    for steps in epochs:
        for task, size in SIZES.items():
            rows = rows_of(steps, task)
            assert len(set(rows)) == len(rows) == min(9, size)
    assert {row for steps in epochs for row in rows_of(steps, "para")} == set(range(23))


def test_a_share_is_drawn_anew_each_epoch(make_spec: Any) -> None:
    """minibert-unleashed draws 49.5 % of its pairs; of the course's split that is 548 steps."""
    tasks = {"sst": {"batch_size": 8}, "para": {"batch_size": 128}, "sts": {"batch_size": 8}}
    rss = make_spec(tasks, sampler={"name": "recycled", "share": 0.495})
    sizes = {"sst": 8544, "para": 141_506, "sts": 6040}
    assert Recycled(rss, sizes, generator()).examples["para"] == 70_045
    assert Recycled(rss, sizes, generator()).steps == 548
    half = Unified(make_spec(sampler={"share": 0.5}), SIZES, generator())
    assert half.examples == dict.fromkeys(SIZES, 4)  # of the smallest, which has 7
    capped = sequential(make_spec, share=0.5, examples=6)
    epochs = [rows_of(list(capped.epoch()), "para") for _ in range(9)]
    assert {len(rows) for rows in epochs} == {6} and len(set().union(*epochs)) > 15


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 5, 40])
def test_steps_are_those_of_an_epoch_whatever_the_sizes(
    kind: Any, steps: int, make_spec: Any
) -> None:
    tasks = {"sst": {"batch_size": 2}, "para": {"batch_size": 6}, "sts": {}}
    spec = make_spec(tasks, sampler={"name": kind.__name__.lower(), "steps": steps})
    sampler = kind(spec, SIZES, generator())
    drawn = list(sampler.epoch())
    assert len(drawn) == sampler.steps
    if kind is Sequential:  # five, four and two steps are a pass; each task has one at least
        assert sampler.steps == {1: 3, 5: 5, 40: 40}[steps]
    elif kind is Alternating:
        assert sampler.steps == {1: 3, 5: 6, 40: 42}[steps]
        assert [task for ((task, _),) in drawn] == list(SIZES) * (sampler.steps // 3)
    else:
        assert sampler.steps == steps and all(len(step) == 3 for step in drawn)
    for task, size in SIZES.items():
        counts = Counter(rows_of(drawn, task))
        batches = sum(name == task for step in drawn for name, _ in step)
        assert counts.total() == batches * spec.tasks[task].batch_size
        assert max(counts.values()) - min(counts[row] for row in range(size)) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_state_draws_the_same(kind: Any, make_spec: Any) -> None:
    spec: StageSpec = make_spec(sampler={"name": kind.__name__.lower()})
    first, second = (kind(spec, SIZES, generator(8)) for _ in range(2))
    other = kind(spec, SIZES, generator(9))
    assert plain(list(first.epoch())) == plain(list(second.epoch())) != plain(list(other.epoch()))


@pytest.mark.parametrize("kind", KINDS)
def test_the_generators_state_is_all_that_a_sampler_remembers(kind: Any, make_spec: Any) -> None:
    spec: StageSpec = make_spec(sampler={"name": kind.__name__.lower()})
    sampler = kind(spec, SIZES, generator(8))
    list(sampler.epoch())
    state = sampler.generator.get_state()
    expected = [plain(list(sampler.epoch())) for _ in range(2)]
    resumed = torch.Generator()
    resumed.set_state(state)
    again = kind(spec, SIZES, resumed)
    assert [plain(list(again.epoch())) for _ in range(2)] == expected


@pytest.mark.parametrize("kind", KINDS)
def test_samplers_leave_the_default_generator_alone(kind: Any, make_spec: Any) -> None:
    before = torch.get_rng_state()
    list(kind(make_spec(sampler={"name": kind.__name__.lower()}), SIZES, generator()).epoch())
    assert torch.equal(torch.get_rng_state(), before)
