"""What a GPU computes, held against the CPU; `benchmarks/gpu.sh` runs this on a machine with one.

`MINBERT_TEST_DEVICE=cpu` runs the same on a CPU.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from stepping import CPU, SIAMESE, STEP, assert_same, make_loop
from test_train_resume import IDENTITY, STAGES, Interrupted

from minbert.base.files import read_json
from minbert.spec.stage import StageSpec
from minbert.train.checkpoints import Checkpoints
from minbert.train.device import choose_precision, is_out_of_memory
from minbert.train.run import train_stage

DEVICE = torch.device(os.environ.get("MINBERT_TEST_DEVICE", "cuda"))

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        DEVICE.type == "cuda" and not torch.cuda.is_available(), reason="needs a CUDA GPU"
    ),
]

TUNED = [name for name, stage in STAGES.items() if stage.get("trainable", "all") == "all"]


def gradients(spec: StageSpec, sources: Any, device: torch.device) -> dict[str, Any]:
    """Return a step's gradients in fp32 by parameter, brought to the CPU."""
    loop = make_loop(spec, sources, device=device)
    loop.gradients(STEP)
    return {
        name: None if p.grad is None else p.grad.cpu().to_dense()
        for name, p in loop.model.module.named_parameters()
    }


@pytest.mark.parametrize("settings", [{}, {"surgery": "pcgrad"}, {"shared_layers": 1}])
def test_gradients_are_those_of_the_cpu(
    settings: dict[str, Any], make_spec: Any, sources: Any
) -> None:
    spec = make_spec({"sst": {}, "para": SIAMESE, "sts": {}}, still=True, **settings)
    expected = gradients(spec, sources, CPU)
    assert any(
        gradient.abs().max() > 1e-3 for gradient in expected.values() if gradient is not None
    )
    assert_same(gradients(spec, sources, DEVICE), expected, rtol=1e-3, atol=1e-5)


def train(
    spec: StageSpec,
    sources: Any,
    out: Path,
    device: torch.device,
    precision: str,
    checkpoints: Checkpoints | None = None,
) -> tuple[list[float], dict[str, Any]]:
    """Train a stage; return its losses, of train and dev in the history's order, and its record."""
    out.mkdir(exist_ok=True)
    how = {"device": str(device), "precision": precision, "checkpoints": checkpoints}
    train_stage(spec, 4, sources(*spec.tasks), out, title="gpu", **how)
    rows = pq.read_table(out / "history.parquet").to_pylist()
    assert len(pq.read_table(out / "predictions.parquet"))
    losses = [row["value"] for row in rows if row["metric"] == "loss"]
    return losses, read_json(out / "run.json")


def test_a_stage_ends_where_it_does_on_the_cpu(
    make_spec: Any, sources: Any, tmp_path: Path
) -> None:
    spec = make_spec(epochs=2, still=True, optimiser={"lr": 1e-3})
    expected, _ = train(spec, sources, tmp_path / "cpu", CPU, "fp32")
    found, _ = train(spec, sources, tmp_path / "gpu", DEVICE, "fp32")
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", TUNED)
def test_stages_train_in_the_precision_that_auto_chooses(
    name: str, make_spec: Any, sources: Any, tmp_path: Path
) -> None:
    settings = {**STAGES[name], "optimiser": {"lr": 1e-4}}
    spec = make_spec(epochs=2, still=True, **settings)
    exact, _ = train(spec, sources, tmp_path / "fp32", DEVICE, "fp32")
    found, record = train(spec, sources, tmp_path / "auto", DEVICE, "auto")
    assert record["environment"]["precision"] == choose_precision("auto", DEVICE)
    assert found == pytest.approx(exact, rel=0.05)
    if DEVICE.type == "cuda":
        assert record["peak_device_memory_bytes"] > 0
        assert record["environment"]["device"] == torch.cuda.get_device_name(DEVICE)


@pytest.mark.parametrize("name", TUNED)
def test_a_stopped_stage_goes_on_with_the_draws_that_it_would_have_had(
    name: str, make_spec: Any, sources: Any, tmp_path: Path
) -> None:
    """To rounding: sums on a GPU have no fixed order. Other dropout moves losses by far more."""
    spec = make_spec(epochs=2, **STAGES[name])
    whole, record = train(spec, sources, tmp_path / "whole", DEVICE, "fp32")
    steps = record["outcome"]["steps"]
    cut = Interrupted(tmp_path / "work", steps // 2 - 1)
    with pytest.raises(SystemExit):
        train(spec, sources, tmp_path / "cut", DEVICE, "fp32", cut)
    again = Checkpoints(tmp_path / "work", IDENTITY, every=0.0)
    found, record = train(spec, sources, tmp_path / "cut", DEVICE, "fp32", again)
    assert record["outcome"]["steps"] == steps
    assert found == pytest.approx(whole, rel=1e-3)


def test_memory_that_runs_out_is_known_as_such() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, dtype=torch.uint8, device=DEVICE)
    assert is_out_of_memory(caught.value)
