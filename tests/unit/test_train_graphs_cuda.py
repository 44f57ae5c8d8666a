"""Real captures, where there is a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from stepping import STEP

from minbert.common.progress import Progress
from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.train.best import Best
from minbert.train.graphs import record_graphs
from minbert.train.history import History
from minbert.train.loop import Loop

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

OPTIMISER = {"lr": 1e-3, "eps": 1e-2, "weight_decay": 0.1}


def make_loop(spec: StageSpec, sources: Any, *, graphs: bool, precision: str = "fp32") -> Loop:
    torch.manual_seed(0)
    device = torch.device("cuda")
    learner = load_part("trainable", spec.trainable)(spec, sources(*spec.tasks), device)
    nowhere = Best(Path("nothing is kept"))
    loop = Loop(spec, learner, 0, device, precision, History(), Progress("run"), nowhere)
    told: list[str] = []
    if graphs:
        assert record_graphs(loop.gradients, device, told.append)
    learner.module.train()
    for _ in range(8):
        loop.train_step(STEP)
        assert not told
    if graphs:
        assert loop.gradients.graphs is not None
        assert loop.gradients.graphs.count == 3
    return loop


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("shared_layers", ["all", 1])
def test_steps_by_graphs_are_ordinary_steps(
    shared_layers: Any, precision: str, surgery: str | None, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(still=True, optimiser=OPTIMISER, surgery=surgery, shared_layers=shared_layers)
    recorded, plain = (
        make_loop(spec, sources, graphs=graphs, precision=precision) for graphs in (True, False)
    )
    # Eight steps at 1e-3 move a weight by 8e-3 at most.
    tolerance = 1e-5 if precision == "fp32" else 2e-3
    for (name, ours), expected in zip(
        recorded.learner.module.named_parameters(), plain.learner.module.parameters(), strict=True
    ):
        torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance, msg=name)


def test_a_step_of_replays_never_waits(make_spec: Any, sources: Any) -> None:
    loop = make_loop(make_spec(), sources, graphs=True)
    torch.cuda.set_sync_debug_mode("error")
    try:
        loop.train_step(STEP)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_replays_draw_anew(make_spec: Any, sources: Any) -> None:
    loop = make_loop(make_spec(optimiser={"lr": 1e-9}), sources, graphs=True)
    loop.meter.waiting.clear()
    for _ in range(4):
        loop.train_step(STEP[:1])
    losses = [loss.item() for *_, loss in loop.meter.waiting]
    assert len(set(losses)) == 4


def test_after_a_failed_capture_dropout_still_draws(make_spec: Any, sources: Any) -> None:
    loop = make_loop(make_spec(), sources, graphs=True)
    graphs = loop.gradients.graphs
    assert graphs is not None and graphs.recorder is not None
    stream = torch.cuda.current_stream()

    def waits() -> None:
        torch.nn.functional.dropout(torch.ones(8, device="cuda")).sum().item()

    with pytest.raises(RuntimeError):
        graphs.recorder.record(waits)
    assert torch.cuda.current_stream() == stream
    assert torch.rand(8, device="cuda").isfinite().all()
    loop.gradients.graphs = None
    loop.train_step(STEP)
