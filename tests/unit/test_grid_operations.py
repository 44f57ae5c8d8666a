"""Counted operations: by hand for each way to train, and what the samplers really draw."""

from __future__ import annotations

import random
from typing import Any

import pytest

from minbert.base.errors import UserError
from minbert.plan.cost import Rows, operations
from minbert.spec.architecture import Architecture
from minbert.spec.epochs import EPOCHS
from minbert.spec.stage import StageSpec

ARCH = Architecture(vocab_size=50, hidden=4, layers=2, heads=2, intermediate=8, positions=40)
LAYER = 4 * (4 * 4 + 4) + (4 * 8 + 8) + (8 * 4 + 4) + 2 * 8
WEIGHTS = 2 * LAYER + (4 * 4 + 4)
ROWS = {"sst": Rows(10, 3, 2), "para": Rows(23, 6, 4), "sts": Rows(7, 4, 5)}
LOSSES = {"sst": "cross_entropy", "para": "binary_cross_entropy", "sts": "mse"}


def stage(tasks: dict[str, dict[str, Any]], **values: Any) -> StageSpec:
    """Two epochs of some of the three tasks."""
    given = {
        task: {"loss": LOSSES[task], "pairing": None if task == "sst" else "cross", **chosen}
        for task, chosen in tasks.items()
    }
    return StageSpec.model_validate({"epochs": 2, **values, "tasks": given})


@pytest.mark.parametrize(
    ("values", "step", "weights"),
    [
        ({}, 6 * WEIGHTS, WEIGHTS),
        # Clean and perturbed, forward and back; two ascents that need no gradient of weights.
        ({"smart": {"weight": 1, "ascents": 2}}, (6 + 6 + 2 * 4) * WEIGHTS, WEIGHTS),
        # Two sublayers in each of two layers, 4 to 3 and back; the backbone is frozen.
        (
            {"trainable": "adapters", "adapter": {"width": 3}},
            4 * WEIGHTS + 6 * 4 * 2 * 4 * 3,
            WEIGHTS + 4 * 2 * 4 * 3,
        ),
        # There a query, a key and a value.
        (
            {"trainable": "fusion", "fuse": ["a", "b", "c"]},
            4 * WEIGHTS + 6 * 4 * 3 * 16,
            WEIGHTS + 4 * 3 * 16,
        ),
    ],
    ids=["all", "smart", "adapters", "fusion"],
)
def test_a_stage_of_one_task_by_hand(values: dict[str, Any], step: int, weights: int) -> None:
    # Two epochs of 10 examples of 25 tokens, 3 dev rows after each; 3 + 2 rows at the end.
    expected = 25 * (2 * (10 * step + 3 * 2 * weights) + 5 * 2 * weights)
    assert operations(stage({"sst": {}}, **values), ARCH, ROWS) == expected


def test_a_sampler_without_its_epochs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(EPOCHS, "unified")
    with pytest.raises(UserError, match=r"'unified' is not in EPOCHS in .*spec/epochs\.py; add"):
        operations(stage({"sst": {}}), ARCH, ROWS)


def test_a_convolution_counts_for_its_task_alone() -> None:
    both: dict[str, dict[str, Any]] = {"sst": {}, "sts": {}}
    without = operations(stage(both), ARCH, ROWS)
    convolved = operations(stage({**both, "sst": {"convolution": {"kernel": 5}}}), ARCH, ROWS)
    assert convolved - without == 25 * 5 * 16 * (2 * (7 * 6 + 3 * 2) + 5 * 2)


def test_a_carried_task_is_scored_once() -> None:
    alone = operations(stage({"sst": {}}), ARCH, ROWS)
    carried = operations(stage({"sst": {}, "sts": {"trained": False}}), ARCH, ROWS)
    assert carried - alone == 28 * 2 * WEIGHTS * (4 + 5)


def test_cached_features_cost_no_encoder() -> None:
    spec = stage({"sst": {}, "sts": {"trained": False}}, trainable="heads")
    deeper = ARCH.model_copy(update={"layers": 24})
    assert operations(spec, ARCH, ROWS) == operations(spec, deeper, ROWS) == 2 * 10 * 2e4


def test_longer_texts_are_cut() -> None:
    whole, cut = (operations(stage({"sst": {}}, max_length=n), ARCH, ROWS) for n in (512, 10))
    assert whole / cut == pytest.approx(25 / 10)


BATCHES = {"sst": {"batch_size": 2}, "para": {"batch_size": 6}, "sts": {"batch_size": 3}}


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        ({"name": "sequential"}, {"sst": 10, "para": 23, "sts": 7}),
        ({"name": "sequential", "examples": 9}, {"sst": 9, "para": 9, "sts": 7}),
        ({"name": "unified"}, {"sst": 7, "para": 21, "sts": 10}),
        ({"name": "unified", "examples": 20}, {"sst": 20, "para": 60, "sts": 30}),
        ({"name": "alternating"}, {"sst": 7, "para": 21, "sts": 10}),
        ({"name": "recycled"}, {"sst": 8, "para": 23, "sts": 12}),
        ({"name": "recycled", "examples": 13}, {"sst": 6, "para": 13, "sts": 9}),
        ({"name": "recycled", "examples": 99}, {"sst": 8, "para": 23, "sts": 12}),
    ],
)
def test_an_epochs_examples_by_hand(sampler: dict[str, Any], expected: dict[str, int]) -> None:
    sizes = {task: rows.train for task, rows in ROWS.items()}
    spec = stage(BATCHES, sampler=sampler)
    assert EPOCHS[spec.sampler.name](spec, sizes).examples == expected


@pytest.mark.parametrize("seed", range(15))
def test_an_epochs_examples_are_those_that_the_samplers_draw(seed: int) -> None:
    torch = pytest.importorskip("torch")
    from minbert.spec.parts import load_part

    draw = random.Random(seed)
    for name in ("sequential", "unified", "alternating", "recycled"):
        tasks = {task: {"batch_size": draw.randint(1, 9)} for task in ROWS}
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
