"""What a GPU computes, held against the CPU; `benchmarks/gpu.sh` runs this on a machine with one.

`MINBERT_TEST_DEVICE=cpu` runs the same on a CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from stepping import CPU
from test_train_resume import STAGES, Interrupted

from minbert.spec.stage import StageSpec
from minbert.train.checkpoints import Checkpoints
from minbert.train.device import choose_precision
from minbert.train.run import train_stage

DEVICE = torch.device(os.environ.get("MINBERT_TEST_DEVICE", "cuda"))

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        DEVICE.type == "cuda" and not torch.cuda.is_available(), reason="needs a CUDA GPU"
    ),
]

TUNED = [name for name, stage in STAGES.items() if stage.get("trainable", "all") == "all"]


Train = Callable[..., tuple[list[float], dict[str, Any]]]


@pytest.fixture
def train(sources: Any, tmp_path: Path) -> Train:
    """Return a function that trains a stage; it returns its losses, in order, and its record."""

    def run(spec: StageSpec, device: Any = DEVICE, precision: str = "fp32", **more: Any) -> Any:
        how = {"title": "gpu", "device": str(device), "precision": precision, **more}
        record = train_stage(spec, 4, sources(*spec.tasks), tmp_path / "out", **how)
        rows = pq.read_table(tmp_path / "out" / "history.parquet").to_pylist()
        return [row["value"] for row in rows if row["metric"] == "loss"], record

    return run


@pytest.mark.parametrize("name", TUNED)
def test_stages_train_in_the_precision_that_auto_chooses(
    name: str, make_spec: Any, train: Train
) -> None:
    settings = {**STAGES[name], "optimiser": {"lr": 1e-4}}
    spec = make_spec(epochs=2, still=True, **settings)
    found, record = train(spec, precision="auto")
    assert record["environment"]["precision"] == choose_precision("auto", DEVICE)
    exact = train(spec)[0]
    assert found == pytest.approx(exact, rel=0.05)
    assert exact == pytest.approx(train(spec, CPU)[0], rel=1e-2)
    if DEVICE.type == "cuda":
        assert record["peak_device_memory_bytes"] > 0
        assert record["environment"]["device"] == torch.cuda.get_device_name(DEVICE)


@pytest.mark.parametrize("name", TUNED)
def test_a_stopped_stage_goes_on_with_the_draws_that_it_would_have_had(
    name: str, make_spec: Any, train: Train, tmp_path: Path
) -> None:
    """To rounding: sums on a GPU have no fixed order. Other dropout moves losses by far more."""
    spec = make_spec(epochs=2, **STAGES[name])
    whole, record = train(spec)
    steps = record["outcome"]["steps"]
    with pytest.raises(SystemExit):
        train(spec, checkpoints=Interrupted(tmp_path / "work", steps // 2 - 1))
    found, record = train(spec, checkpoints=Checkpoints(tmp_path / "work", every=0.0))
    assert record["outcome"]["steps"] == steps
    assert found == pytest.approx(whole, rel=1e-3)
