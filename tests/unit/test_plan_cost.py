"""What trainings cost: operations by hand, what the samplers draw, rates, the longest chain."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import finish, make_plan, training
from planning import TWO_STAGES

from minbert.base.errors import UserError
from minbert.plan.cost import Cost, Costs, Size, chains, operations
from minbert.plan.pending import pending
from minbert.spec.architecture import Architecture
from minbert.spec.epochs import EPOCHS
from minbert.spec.stage import StageSpec

ARCH = Architecture(vocab_size=50, hidden=4, layers=2, heads=2, intermediate=8, positions=40)
LAYER = 4 * (4 * 4 + 4) + (4 * 8 + 8) + (8 * 4 + 4) + 2 * 8
WEIGHTS = 2 * LAYER + (4 * 4 + 4)
# Two sublayers in each of two layers: 4 to 3 and back; a query (with a bias), a key and a value.
ADAPTERS, FUSION = 4 * (2 * 4 * 3 + 3 + 4), 4 * (3 * 16 + 4)
SIZES = {"sst": Size(10, 3, 2, 25), "para": Size(23, 6, 4, 30), "sts": Size(7, 4, 5, 28)}
LOSSES = {"sst": "cross_entropy", "para": "binary_cross_entropy", "sts": "mse"}
Tasks = dict[str, dict[str, Any]]


def stage(tasks: Tasks, **values: Any) -> StageSpec:
    """Two epochs of some of the three tasks."""
    given = {
        task: {"loss": LOSSES[task], "pairing": None if task == "sst" else "cross", **chosen}
        for task, chosen in tasks.items()
    }
    return StageSpec.model_validate({"epochs": 2, **values, "tasks": given})


def cost(tasks: Tasks, arch: Architecture = ARCH, **values: Any) -> float:
    return operations(stage(tasks, **values), arch, SIZES)


@pytest.mark.parametrize(
    ("values", "step", "weights"),
    [
        ({}, 6 * WEIGHTS, WEIGHTS),
        # Clean and perturbed, forward and back; two ascents that need no gradient of weights.
        ({"smart": {"weight": 1, "ascents": 2}}, (6 + 6 + 2 * 4) * WEIGHTS, WEIGHTS),
        # The backbone is frozen.
        (
            {"trainable": "adapters", "adapter": {"width": 3}},
            4 * WEIGHTS + 6 * ADAPTERS,
            WEIGHTS + ADAPTERS,
        ),
        (
            {"trainable": "fusion", "fuse": ["a", "b", "c"]},
            4 * WEIGHTS + 6 * FUSION,
            WEIGHTS + FUSION,
        ),
    ],
    ids=["all", "smart", "adapters", "fusion"],
)
def test_a_stage_of_one_task_by_hand(values: dict[str, Any], step: int, weights: int) -> None:
    # Two epochs of 10 examples of 25 tokens, 3 dev rows after each; 3 + 2 rows at the end.
    expected = 25 * (2 * (10 * step + 3 * 2 * weights) + 5 * 2 * weights)
    assert cost({"sst": {}}, **values) == expected


def test_what_changes_a_stages_operations() -> None:
    both: Tasks = {"sst": {}, "sts": {}}
    alone, plain = cost({"sst": {}}), cost(both)
    convolved = cost({**both, "sst": {"convolution": {"kernel": 5}}})
    assert convolved - plain == 25 * (5 * 16 + 4) * (2 * (7 * 6 + 3 * 2) + 5 * 2), "one task alone"
    carried: Tasks = {"sst": {}, "sts": {"trained": False}}
    assert cost(carried) - alone == 28 * 2 * WEIGHTS * (4 + 5), "scored once"
    for arch in (ARCH, ARCH.model_copy(update={"layers": 24})):
        assert cost(carried, arch, trainable="heads") == 2 * 10 * 2e4
    assert alone / cost({"sst": {}}, max_length=10) == pytest.approx(25 / 10)


def test_a_sampler_without_its_epochs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(EPOCHS, "unified")
    with pytest.raises(UserError, match=r"'unified' is not in EPOCHS in .*spec/epochs\.py; add"):
        cost({"sst": {}})


@pytest.mark.parametrize("seed", range(15))
def test_an_epochs_examples_are_those_that_the_samplers_draw(seed: int) -> None:
    torch = pytest.importorskip("torch")
    from minbert.spec.parts import load_part

    draw = random.Random(seed)
    for name in ("sequential", "unified", "alternating", "recycled"):
        tasks = {task: {"batch_size": draw.randint(1, 9)} for task in SIZES}
        cap = draw.choice([None, draw.randint(1, 50)])
        spec = stage(tasks, sampler={"name": name, "examples": cap})
        sizes = {task: draw.randint(1, 40) for task in spec.tasks}
        sampler = load_part("sampler", name)(spec, sizes, torch.Generator())
        found = dict.fromkeys(sizes, 0)
        steps = list(sampler.epoch())
        for step in steps:
            for task, rows in step:
                found[task] += len(rows)
        assert EPOCHS[name](spec, sizes) == (len(steps), found), name


def test_time_is_that_of_finished_seeds_or_at_the_rate_of_all_runs(tmp_path: Path) -> None:
    made = make_plan(tmp_path, seeds=[0, 1])
    first = training(made, "first")
    guess = Costs(made)
    assert not guess.of(first).measured and "(an assumption)" in guess.basis
    finish(made, seconds=40)
    assert Costs(made).of(first) == Cost(40, measured=True)
    # Of an edited stage no seed has finished: twice the epochs take twice as long.
    longer = TWO_STAGES.replace("{lr: 1e-4}", "{lr: 3e-4}, epochs: 20")
    after = make_plan(tmp_path, longer, seeds=[0, 1])
    found = Costs(after)
    assert found.of(training(after, "first")).seconds == pytest.approx(80, rel=0.03)
    assert not found.of(training(after, "first")).measured
    assert "(as in finished runs)" in found.basis


@pytest.mark.parametrize(
    ("recorded", "wish", "cards", "counts"),
    [
        ("cpu", "cpu", 1, True),
        ("cpu", "cuda", 1, False),
        ("cpu", "auto", 1, False),
        ("cpu", "auto", 0, True),
        ("NVIDIA H200", "cuda", 1, True),
        ("mps", "mps", 0, True),
        ("mps", "cpu", 0, False),
        ("mps", "cuda", 1, False),
    ],
)
def test_runs_on_other_devices_say_nothing_of_time(
    tmp_path: Path,
    nvidia_smi: Callable[[int], object],
    recorded: str,
    wish: str,
    cards: int,
    counts: bool,
) -> None:
    nvidia_smi(cards)
    made = make_plan(tmp_path, device=wish)
    finish(made, training(made, "first"), device=recorded)
    assert Costs(made).of(training(made, "first")).measured == counts


def test_a_jobs_chain_is_the_longest_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Costs, "_of", lambda self, node: Cost(20.0, measured=False))
    more = "  third: {extends: t, start: second}\n  alone: {extends: t, epochs: 3}\n"
    made = make_plan(tmp_path, TWO_STAGES + more)
    jobs = pending(made)
    first, second, third = ((training(made, name), 0) for name in ("first", "second", "third"))
    found = chains(jobs, Costs(made))
    assert found[first] == (60, (first, second, third)) and found[third].seconds == 20
    by_kind = {node.kind: found[node, seed].seconds for node, seed in jobs if seed is None}
    assert by_kind["data"] == by_kind["tokens"] == by_kind["backbone"] == 60
    assert by_kind["scores"] == by_kind["table"] == by_kind["report"] == 0
    finish(made, first[0])
    after = chains(pending(made), Costs(made))
    assert first not in after and after[second].seconds == 40, "what is done takes no time"
