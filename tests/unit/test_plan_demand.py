"""The memory that a job is thought to need, and what it asks for: memory, time, threads, GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import finish, make_plan, training

from minbert.plan.cost import Costs, Size
from minbert.plan.demand import (
    LEAST,
    ON_GPU,
    PLAIN,
    PROCESS,
    WRAPPED,
    Resources,
    job_threads,
    memory,
)
from minbert.plan.parameters import count
from minbert.plan.pending import pending
from minbert.spec.architecture import Architecture, training_bytes
from minbert.spec.stage import StageSpec

ARCH = Architecture(vocab_size=50, hidden=8, layers=2, heads=2, intermediate=16, positions=40)
SIZES = {"sst": Size(10, 3, 2, 25), "para": Size(20, 6, 4, 30), "sts": Size(7, 4, 5, 28)}
# The largest batch: 8 pairs, 16 sequences of twice the mean 15 tokens.
BATCH = int(16 * ARCH.activation_bytes(30))
ADAPTERS: dict[str, Any] = {"trainable": "adapters", "adapter": {"width": 2}}


def stage(**values: Any) -> StageSpec:
    """Three tasks, of which the paraphrases have their sentences encoded apart."""
    siamese = {"pairing": "siamese", "features": ["u", "v"], "batch_size": 8}
    tasks = {
        "sst": {"loss": "cross_entropy", "batch_size": 4},
        "para": {"loss": "binary_cross_entropy", **siamese},
        "sts": {"loss": "mse", "pairing": "cross", "batch_size": 2},
    }
    return StageSpec.model_validate({"tasks": tasks, **values})


@pytest.mark.parametrize(
    ("values", "gradients", "activations"),
    [
        ({}, 1, BATCH),
        ({"surgery": "pcgrad"}, 4, BATCH),
        ({"smart": {"weight": 1.0}}, 1, 2 * BATCH),
        ({"max_length": 8}, 1, int(16 * ARCH.activation_bytes(8))),
        (ADAPTERS, 1, BATCH),
    ],
)
def test_a_stages_memory_by_hand(values: dict[str, Any], gradients: int, activations: int) -> None:
    spec = stage(**values)
    counted = count(spec, ARCH)
    assert counted["total"] and counted["trainable"]
    state = 4 * counted["total"] + 4 * (gradients + 2) * counted["trainable"]
    assert state == training_bytes(counted["total"], counted["trainable"], gradients)
    assert memory(spec, counted, ARCH, SIZES) == PROCESS + state + activations


def test_a_frozen_encoder_has_features_instead() -> None:
    spec = stage(trainable="heads")
    counted = count(spec, ARCH)
    # One sequence an example of sst and sts, two of paraphrases.
    features = (15 + 2 * 30 + 16) * 8 * 4
    assert memory(spec, counted, ARCH, SIZES) == PROCESS + 16 * (counted["heads"] or 0) + features


@pytest.mark.parametrize("gpu", [False, True])
def test_what_jobs_ask_for(tmp_path: Path, gpu: bool) -> None:
    made = make_plan(tmp_path)
    asked = Resources(made, gpu)
    for node in made.nodes.values():
        first, third = ((asked.mem_mb(node, n), asked.minutes(node, n)) for n in (1, 3))
        assert third == (4 * first[0], 4 * first[1]), "twice as much at each attempt"
        computes = node.kind == "train"
        assert asked.gpus(node) == (gpu and computes)
        device = asked.device_mb(node)
        assert (device > PROCESS / 1e6) == (node.kind in ("train", "backbone"))
        assert first[0] == WRAPPED + (device or PLAIN) + ON_GPU * (gpu and computes)
    assert asked.minutes(training(made, "first"), 1) >= LEAST


def test_a_cluster_without_gpus_has_the_time_of_cpus_though_its_login_node_has_one(
    tmp_path: Path, nvidia_smi: Callable[[int], object]
) -> None:
    made = make_plan(tmp_path, device="auto")
    node = training(made, "first")
    nvidia_smi(0)
    on_cpu = Costs(made, None).of(node).seconds
    nvidia_smi(1)
    assert Costs(made, gpu=False).of(node).seconds == on_cpu != Costs(made, None).of(node).seconds


def test_cores_are_shared_out_among_the_jobs_to_run(tmp_path: Path) -> None:
    for config, cores, threads in (
        ({}, 1, 1),
        ({}, 4, 2),
        ({}, 64, 4),
        ({"seeds": [0, 1, 2]}, 8, 1),
        ({}, None, 1),
        ({"threads": 3}, 1, 3),
    ):
        made = make_plan(tmp_path, **config)
        assert job_threads(made, pending(made), cores) == threads
    made = make_plan(tmp_path)
    finish(made, training(made, "first"))
    assert job_threads(made, pending(made), 4) == 4
