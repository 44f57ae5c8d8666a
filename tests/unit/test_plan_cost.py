"""What jobs cost: operations and memory by hand, rates of finished runs, what jobs ask for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import finish, make_plan, training
from planning import TWO_STAGES

from minbert.plan.cost import (
    AROUND,
    CPU_RATE,
    LEAST,
    PLAIN,
    PROCESS,
    Costs,
    Size,
    chains,
    job_threads,
    memory,
    operations,
)
from minbert.plan.parameters import count
from minbert.plan.pending import pending
from minbert.spec.architecture import Architecture, training_bytes
from minbert.spec.stage import StageSpec

ARCH = Architecture(vocab_size=50, hidden=4, layers=2, heads=2, intermediate=8, positions=40)
LAYER = 4 * (4 * 4 + 4) + (4 * 8 + 8) + (8 * 4 + 4) + 2 * 8
WEIGHTS = 2 * LAYER + (4 * 4 + 4)
SIZES = {
    "sst": Size(10, 3, 2, 25),
    "para": Size(23, 6, 4, 15),
    "sts": Size(7, 4, 5, 28),
}.__getitem__
ADAPTERS: dict[str, Any] = {"trainable": "adapters", "adapter": {"width": 2}}


def stage(*tasks: str, carried: str = "", **values: Any) -> StageSpec:
    """Two epochs of some of the three tasks; of paraphrases both sentences are encoded apart."""
    given: dict[str, dict[str, Any]] = {
        "sst": {"loss": "cross_entropy", "batch_size": 4},
        "para": {
            "loss": "binary_cross_entropy",
            "pairing": "siamese",
            "features": ["u", "v"],
            "batch_size": 8,
        },
        "sts": {"loss": "mse", "pairing": "cross", "batch_size": 2},
    }
    chosen = {task: given[task] | {"trained": task != carried} for task in tasks or given}
    return StageSpec.model_validate({"epochs": 2, **values, "tasks": chosen})


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ({}, 6),
        # Clean, perturbed, and two ascents.
        ({"smart": {"weight": 1, "ascents": 2}}, 6 * 4),
        (ADAPTERS, 4),  # The backbone is frozen.
    ],
)
def test_operations_of_one_task_by_hand(values: dict[str, Any], step: int) -> None:
    # Two epochs of 10 examples of 25 tokens, 3 dev rows after each; 3 + 2 rows at the end.
    expected = (2 * (10 * step + 3 * 2) + 5 * 2) * WEIGHTS
    assert operations(stage("sst", **values), ARCH, SIZES) == 25 * expected
    assert operations(stage("sst", **values, max_length=10), ARCH, SIZES) == 10 * expected
    more = operations(stage("sst", "sts", carried="sts", **values), ARCH, SIZES)
    assert more == 25 * expected + 28 * 2 * WEIGHTS * (4 + 5), "scored once"


def test_a_frozen_encoder_has_features_instead() -> None:
    assert operations(stage("sst", trainable="heads"), ARCH, SIZES) == 0
    spec = stage(trainable="heads")
    counted = count(spec, ARCH)
    assert counted
    # One sequence an example of sst and sts, two of paraphrases.
    features = (15 + 2 * 33 + 16) * 4 * 4
    assert memory(spec, counted, ARCH, SIZES) == PROCESS + 16 * counted["heads"] + features


# The largest batch: 8 of twice the mean 15 tokens.
BATCH = int(8 * ARCH.activation_bytes(30))


@pytest.mark.parametrize(
    ("values", "gradients", "activations"),
    [
        ({}, 1, BATCH),
        ({"surgery": "pcgrad"}, 4, BATCH),
        ({"smart": {"weight": 1.0}}, 1, 2 * BATCH),
        ({"max_length": 8}, 1, int(8 * ARCH.activation_bytes(8))),
        (ADAPTERS, 1, BATCH),
    ],
)
def test_a_stages_memory_by_hand(values: dict[str, Any], gradients: int, activations: int) -> None:
    spec = stage(**values)
    counted = count(spec, ARCH)
    assert counted
    state = 4 * counted["total"] + 4 * (gradients + 2) * counted["trainable"]
    assert state == training_bytes(counted["total"], counted["trainable"], gradients)
    assert memory(spec, counted, ARCH, SIZES) == PROCESS + state + activations


def test_time_is_at_the_rate_of_finished_runs(tmp_path: Path) -> None:
    frozen = "  frozen: {extends: first, trainable: heads}\n"
    made = make_plan(tmp_path, TWO_STAGES + frozen, seeds=[0, 1])
    heads = training(made, "frozen")
    assert Costs(made).rate == (CPU_RATE, False)
    finish(made, *(node for node in made.nodes.values() if node.kind != "train"), heads)
    assert Costs(made).rate == (CPU_RATE, False), "a step on cached vectors is no measure"
    finish(made, seconds=40)
    assert Costs(made).seconds(training(made, "first")) == pytest.approx(40)
    # Twice the epochs take twice as long.
    after = make_plan(tmp_path, TWO_STAGES.replace("{lr: 1e-4}", "{lr: 3e-4}, epochs: 20"))
    assert Costs(after).seconds(training(after, "first")) == pytest.approx(80, rel=0.03)
    assert Costs(make_plan(tmp_path, limit=40)).rate == (CPU_RATE, False), "of other data"


@pytest.mark.parametrize(
    ("recorded", "wish", "gpu", "counts"),
    [
        ("cpu", "cpu", None, True),
        ("cpu", "cuda", None, False),
        ("cpu", "auto", None, False),
        ("cpu", "auto", False, True),  # a cluster without GPUs, whose login node has one
        ("NVIDIA H200", "cuda", None, True),
    ],
)
def test_runs_on_other_devices_say_nothing_of_time(
    tmp_path: Path,
    nvidia_smi: Callable[[int], object],
    recorded: str,
    wish: str,
    gpu: bool | None,
    counts: bool,
) -> None:
    nvidia_smi(1)
    made = make_plan(tmp_path, device=wish)
    finish(made, training(made, "first"), device=recorded)
    assert Costs(made, gpu).rate[1] == counts


@pytest.mark.parametrize("gpu", [False, True])
def test_what_jobs_ask_for(tmp_path: Path, gpu: bool) -> None:
    made = make_plan(tmp_path)
    asked = Costs(made, gpu)
    for node in made.nodes.values():
        computes = node.kind == "train"
        assert asked.gpus(node) == (gpu and computes)
        device = asked.device_mb(node)
        assert (device > PROCESS / 1e6) == (node.kind in ("train", "backbone"))
        assert asked.mem_mb(node) == (device or PLAIN) + AROUND[gpu and computes]
    assert asked.minutes(training(made, "first")) >= LEAST


def test_cores_are_shared_out_among_the_jobs_to_run(tmp_path: Path) -> None:
    for config, cores, threads in (
        ({}, 4, 2),
        ({}, 64, 4),
        ({"seeds": [0, 1, 2]}, 8, 1),
        ({}, None, 1),
        ({"threads": 3}, 1, 3),
    ):
        assert job_threads(pending(make_plan(tmp_path, **config)), cores) == threads


def test_a_jobs_chain_is_the_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Costs, "seconds", lambda self, node: 20.0)
    more = "  third: {extends: t, start: second}\n  alone: {extends: t, epochs: 3}\n"
    made = make_plan(tmp_path, TWO_STAGES + more)
    jobs = pending(made)
    found = chains(jobs, Costs(made))
    trained = [found[training(made, name), 0] for name in ("first", "second", "third", "alone")]
    assert trained == [60, 40, 20, 20]
    by_kind = {node.kind: found[node, seed] for node, seed in jobs if seed is None}
    assert by_kind["data"] == by_kind["tokens"] == by_kind["backbone"] == 60
    assert by_kind["scores"] == by_kind["table"] == by_kind["report"] == 0
