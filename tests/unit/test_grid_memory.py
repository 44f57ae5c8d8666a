"""The memory that a job is thought to need, and what it then asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planning import planning_folder

from minbert.devices.cards import FAKE
from minbert.plan.cost import Rows
from minbert.plan.demand import LEAST, ON_GPU, PLAIN, PROCESS, WRAPPED, Demand, Memory, memory
from minbert.plan.parameters import count
from minbert.plan.plan import Plan
from minbert.spec.architecture import Architecture
from minbert.spec.stage import StageSpec

ARCH = Architecture(vocab_size=50, hidden=8, layers=2, heads=2, intermediate=16, positions=40)
ROWS = {"sst": Rows(10, 3, 2), "para": Rows(20, 6, 4), "sts": Rows(7, 4, 5)}
GRID = """\
paper: one
title: One
overall: plain
variants:
  a: {tasks: {sst: {loss: cross_entropy}}, epochs: 4}
"""


def stage(**values: Any) -> StageSpec:
    """Three tasks, of which the paraphrases have their sentences encoded apart."""
    tasks = {
        "sst": {"loss": "cross_entropy", "batch_size": 4},
        "para": {
            "loss": "binary_cross_entropy",
            "pairing": "siamese",
            "features": ["u", "v"],
            "batch_size": 8,
        },
        "sts": {"loss": "mse", "pairing": "cross", "batch_size": 2},
    }
    return StageSpec.model_validate({"tasks": tasks, **values})


def needed(arch: Architecture = ARCH, **values: Any) -> Memory:
    spec = stage(**values)
    return memory(spec, arch, count(spec, arch), ROWS)


def test_a_stage_by_hand() -> None:
    counts = count(stage(), ARCH)
    assert counts["total"] is not None
    found = needed()
    assert found.weights == found.gradients == 4 * counts["total"]
    assert found.moments == 8 * counts["total"]
    # The largest batch: 8 pairs, 16 sequences of twice the mean 15 tokens.
    assert found.activations == int(16 * ARCH.activation_bytes(30))
    assert found.total == PROCESS + sum(found)


def test_what_surgery_and_smart_keep_besides() -> None:
    plain, operated = needed(), needed(surgery="pcgrad")
    assert operated.gradients == 4 * plain.gradients
    assert needed(smart={"weight": 1.0}).activations == 2 * plain.activations


def test_longer_texts_are_cut() -> None:
    assert needed(max_length=8).activations == int(16 * ARCH.activation_bytes(8))


def test_adapters_train_little_and_a_frozen_encoder_nothing() -> None:
    assert needed(trainable="adapters", adapter={"width": 2}).gradients < needed().gradients / 2
    frozen = needed(trainable="heads")
    # One sequence an example of sst and sts, two of paraphrases.
    assert frozen.features == (15 + 2 * 30 + 16) * 8 * 4
    assert frozen.activations == 0 and frozen.weights < needed().weights / 10


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return planning_folder(tmp_path, GRID)


def demand(base: Path, gpu: bool | None, **config: Any) -> tuple[Demand, dict[str, str]]:
    """Return the demands of a plan, and a key of each kind of node."""
    values = {"grids": ["g"], "data": "builtin", "backbone": "builtin"}
    plan = Plan.load({**values, "results": str(base / "results"), **config}, base)
    return Demand(plan, gpu), dict(plan.nodes.keys())


def test_each_attempt_asks_for_twice_as_much(base: Path) -> None:
    asked, keys = demand(base, gpu=False)
    for kind in ("train", "data", "backbone"):
        first = asked.mem_mb(kind, keys[kind], 1), asked.minutes(kind, keys[kind], 1)
        third = asked.mem_mb(kind, keys[kind], 3), asked.minutes(kind, keys[kind], 3)
        assert third == (4 * first[0], 4 * first[1])


def test_a_training_asks_for_what_the_plan_estimates(base: Path) -> None:
    asked, keys = demand(base, gpu=False)
    on_device = asked.device_mb("train", keys["train"])
    assert on_device > PROCESS / 1e6
    assert asked.mem_mb("train", keys["train"], 1) == WRAPPED + on_device
    with_gpu, _ = demand(base, gpu=True)
    assert with_gpu.mem_mb("train", keys["train"], 1) == WRAPPED + on_device + ON_GPU
    assert asked.minutes("train", keys["train"], 1) >= LEAST


def test_what_computes_nothing_needs_no_device(base: Path) -> None:
    asked, keys = demand(base, gpu=True)
    for kind in ("data", "tokens", "scores", "table"):
        assert asked.device_mb(kind, keys[kind]) == 0
        assert asked.mem_mb(kind, keys[kind], 1) == WRAPPED + PLAIN


def test_what_computes_on_a_gpu_asks_for_one(base: Path) -> None:
    asked, keys = demand(base, gpu=True)
    wanted = {"train": 1, "backbone": 1, "data": 0, "tokens": 0, "scores": 0, "table": 0}
    assert {kind: asked.gpus(kind, keys[kind]) for kind in wanted} == wanted
    on_device = asked.device_mb("train", keys["train"])
    assert asked.mem_mb("train", keys["train"], 1) == WRAPPED + on_device + ON_GPU
    without, _ = demand(base, gpu=False)
    assert without.gpus("train", keys["train"]) == 0


def test_a_cluster_without_gpus_has_the_time_of_cpus_though_its_login_node_has_one(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(gpu: bool | None) -> float:
        asked, keys = demand(base, gpu)
        return asked.costs.of(asked.plan.node("train", keys["train"])).seconds

    monkeypatch.setenv(FAKE, "0x80GB")
    on_cpu = seconds(None)
    monkeypatch.setenv(FAKE, "1x80GB")
    assert seconds(False) == on_cpu != seconds(None)
