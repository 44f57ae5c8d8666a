"""What trainings cost: operations by hand, what the samplers draw, rates, the longest chain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import finish, make_plan, training
from planning import TWO_STAGES

from minbert.plan.cost import CPU_RATE, Cost, Costs, Size, chains, operations
from minbert.plan.pending import pending
from minbert.spec.architecture import Architecture
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


def cost(tasks: Tasks, **values: Any) -> float:
    return operations(stage(tasks, **values), ARCH, SIZES)


@pytest.mark.parametrize(
    ("values", "step", "inserted"),
    [
        ({}, 6 * WEIGHTS, 0),
        # Clean and perturbed, forward and back; two ascents that need no gradient of weights.
        ({"smart": {"weight": 1, "ascents": 2}}, (6 + 6 + 2 * 4) * WEIGHTS, 0),
        # The backbone is frozen.
        ({"trainable": "adapters", "adapter": {"width": 3}}, 4 * WEIGHTS + 6 * ADAPTERS, ADAPTERS),
        ({"trainable": "fusion", "fuse": ["a", "b", "c"]}, 4 * WEIGHTS + 6 * FUSION, FUSION),
    ],
    ids=["all", "smart", "adapters", "fusion"],
)
def test_a_stage_of_one_task_by_hand(values: dict[str, Any], step: int, inserted: int) -> None:
    # Two epochs of 10 examples of 25 tokens, 3 dev rows after each; 3 + 2 rows at the end.
    expected = 2 * (10 * step + 3 * 2 * (WEIGHTS + inserted)) + 5 * 2 * (WEIGHTS + inserted)
    assert cost({"sst": {}}, **values) == 25 * expected
    assert cost({"sst": {}}, **values, max_length=10) == 10 * expected
    carried = cost({"sst": {}, "sts": {"trained": False}}, **values)
    assert carried - 25 * expected == 28 * 2 * (WEIGHTS + inserted) * (4 + 5), "scored once"


def test_heads_alone_cost_next_to_nothing() -> None:
    assert cost({"sst": {}, "sts": {"trained": False}}, trainable="heads") == 2 * 10 * 2e4


def test_time_is_that_of_finished_seeds_or_at_the_rate_of_all_runs(tmp_path: Path) -> None:
    made = make_plan(tmp_path, seeds=[0, 1])
    first = training(made, "first")
    guess = Costs(made)
    assert not guess.of(first).measured and guess.rate == (CPU_RATE, False)
    finish(made, seconds=40)
    assert Costs(made).of(first) == Cost(40, measured=True)
    # Of an edited stage no seed has finished: twice the epochs take twice as long.
    after = make_plan(tmp_path, TWO_STAGES.replace("{lr: 1e-4}", "{lr: 3e-4}, epochs: 20"))
    found = Costs(after).of(training(after, "first"))
    assert found.seconds == pytest.approx(80, rel=0.03) and not found.measured


@pytest.mark.parametrize(
    ("recorded", "wish", "cards", "counts"),
    [
        ("cpu", "cpu", 1, True),
        ("cpu", "cuda", 1, False),
        ("cpu", "auto", 1, False),
        ("cpu", "auto", 0, True),
        ("NVIDIA H200", "cuda", 1, True),
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
    found = chains(jobs, Costs(made))
    trained = [found[training(made, name), 0] for name in ("first", "second", "third", "alone")]
    assert trained == [60, 40, 20, 20]
    by_kind = {node.kind: found[node, seed] for node, seed in jobs if seed is None}
    assert by_kind["data"] == by_kind["tokens"] == by_kind["backbone"] == 60
    assert by_kind["scores"] == by_kind["table"] == by_kind["report"] == 0
