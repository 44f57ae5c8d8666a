"""Batches in parts: the same step in less memory, and one more try where memory runs out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model_batches import pack
from stepping import CPU, STEP, assert_same, learner, make_gradients
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.progress import Progress
from minbert.engine import device
from minbert.engine.checkpoints import Best
from minbert.model.encoder import initialise, whole_encoder
from minbert.spec.architecture import Architecture
from minbert.spec.encoders.modernbert import ModernBert
from minbert.spec.stage import Dropout, StageSpec
from minbert.train import room as room_module
from minbert.train.history import History
from minbert.train.loop import Loop, Settings
from minbert.train.samplers import Step
from minbert.train.surgery.gradients import combine

SIAMESE = {"pairing": "siamese", "features": ["u", "v", "|u-v|"]}


def found(spec: StageSpec, sources: Any, room: float) -> tuple[dict[str, Any], list[Any], int]:
    """Return the gradients, the losses told and the most parts of one step in `room` bytes."""
    made = learner(spec, sources)
    draw = torch.Generator().manual_seed(0)
    gradients = make_gradients(made, spec, draw, room=room)
    told, _ = gradients(STEP)
    by_name = {
        name: None if p.grad is None else p.grad for name, p in made.module.named_parameters()
    }
    return by_name, told, gradients.passes.parts


@pytest.mark.parametrize(
    "settings", [{}, {"surgery": "pcgrad"}, {"shared_layers": 1}, {"weighting": "geometric_mean"}]
)
def test_parts_add_up_to_the_whole_batch(
    settings: dict[str, Any], make_spec: Any, sources: Any
) -> None:
    spec = make_spec({"sst": {}, "para": SIAMESE, "sts": {}}, still=True, **settings)
    whole, told, one = found(spec, sources, float("inf"))
    divided, told_of_parts, parts = found(spec, sources, 1.0)
    assert (one, parts) == (1, 4)
    assert_same(divided, whole, rtol=1e-4, atol=1e-6)
    for one_pass, several in zip(told, told_of_parts, strict=True):
        assert (one_pass.task, one_pass.weight) == (several.task, several.weight)
        assert torch.equal(one_pass.rows, several.rows)
        torch.testing.assert_close(one_pass.prediction, several.prediction, rtol=1e-4, atol=1e-5)
        assert one_pass.loss.item() == pytest.approx(several.loss.item(), rel=1e-5)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.1, 300))
def test_a_division_keeps_order_and_room(sizes: list[float], room: float) -> None:
    parts = list(room_module.divide(np.array(sizes), room))
    assert [n for part in parts for n in range(len(sizes))[part]] == list(range(len(sizes)))
    if sum(sizes) <= room * (1 - 1e-9):
        assert len(parts) == 1
        return
    room *= room_module.PART if len(parts) > 1 else 1
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        inside = sizes[part]
        assert len(inside) == 1 or sum(inside) <= room * (1 + 1e-9)
        if after is not None:
            assert sum(inside) + sizes[after.start] > room * (1 - 1e-9)


@pytest.mark.parametrize("lengths", [[12] * 16, [200, 180]])
@pytest.mark.parametrize("hidden", [64, 128])
@pytest.mark.parametrize(("kind", "wider"), [(Architecture, 4), (ModernBert, 1.5)])
def test_the_estimate_is_near_what_a_backward_pass_keeps(
    lengths: list[int], hidden: int, kind: type[Architecture], wider: float
) -> None:
    shapes = {"layers": 3, "heads": hidden // 16, "positions": 256}
    arch = kind(vocab_size=50, hidden=hidden, intermediate=int(wider * hidden), **shapes)
    encoder = whole_encoder(arch, Dropout())
    initialise(encoder)
    count = sum(lengths)
    batch = pack(torch.arange(count) % 50, [0] * count, lengths)
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        hidden_state = encoder.train()(batch)
    weights = {p.untyped_storage().data_ptr() for p in encoder.parameters()}
    measured = sum(n for pointer, n in kept.items() if pointer not in weights)
    assert hidden_state.requires_grad
    estimate = arch.activation_bytes(np.array(lengths)).sum()
    assert 0.8 < estimate / measured < 1.6


def make_loop(spec: StageSpec, sources: Any) -> Loop:
    settings = Settings(CPU, "fp32", Progress("run"), Best(Path("nothing is kept")))
    loop = Loop(spec, learner(spec, sources), 0, settings, History())
    loop.learner.module.train()
    return loop


def run_out(loop: Loop, monkeypatch: pytest.MonkeyPatch, most: int, error: BaseException) -> None:
    """Let batches of more than `most` examples run out of memory."""
    output: Callable[..., Any] = loop.learner.output
    together: Callable[..., Any] = loop.learner.together

    def limited(task: str, rows: Tensor) -> Any:
        if len(rows) > most:
            raise error
        return output(task, rows)

    def limited_together(step: Step) -> Any:
        if sum(len(rows) for _, rows in step) > most:
            raise error
        return together(step)

    monkeypatch.setattr(loop.learner, "output", limited)
    monkeypatch.setattr(loop.learner, "together", limited_together)


NO_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"),
    MemoryError(),
]


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
def test_a_step_without_memory_is_made_again_in_parts(
    error: BaseException,
    make_spec: Any,
    sources: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = make_spec(still=True)
    easy, hard = make_loop(spec, sources), make_loop(spec, sources)
    run_out(hard, monkeypatch, 3, error)
    for loop in (easy, hard):
        loop.train_step(STEP)
        loop.train_step(STEP)
    assert hard.passes.parts > 1 == easy.passes.parts
    assert len(hard.meter.waiting) == len(easy.meter.waiting)
    for ours, expected in zip(
        hard.learner.module.parameters(), easy.learner.module.parameters(), strict=True
    ):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6)
    told = capsys.readouterr().err
    assert told.count("out of memory at step") == 1
    assert "MiB of activations" in told


def test_a_step_that_runs_out_twice_says_what_to_do(
    make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make_loop(make_spec(), sources)
    run_out(loop, monkeypatch, 0, torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(UserError, match=r"3 of sst, 4 of para.*Lower 'batch_size'.*CUDA"):
        loop.train_step(STEP)


def test_a_step_that_runs_out_in_its_surgery_is_told_once(
    make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make_loop(make_spec(surgery="pcgrad", weighting="dynamic_average"), sources)
    failing = [torch.OutOfMemoryError("CUDA out of memory")]

    def once(*given: Any, **named: Any) -> Any:
        if failing:
            raise failing.pop()
        return combine(*given, **named)

    monkeypatch.setattr("minbert.train.step.combine", once)
    loop.train_step(STEP)
    assert not failing and len(loop.meter.waiting) == len(STEP)
    assert loop.gradients.weighting is not None
    assert loop.gradients.weighting.state()["steps"] == 1


def test_other_errors_of_a_step_are_not_tried_again(
    make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make_loop(make_spec(), sources)
    run_out(loop, monkeypatch, 0, RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        loop.train_step(STEP)


def test_the_budget_is_a_share_of_the_machine_and_keeps_to_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_module.os, "cpu_count", lambda: 8)
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(device, "CGROUP", limit)
    large = 2**50
    whole = room_module.budget(CPU, 8, large)
    assert room_module.budget(CPU, 2, large) == pytest.approx(whole / 4)
    limit.write_text("max\n")
    assert room_module.budget(CPU, 8, large) == whole
    limit.write_text(f"{2**30}\n")
    limited = room_module.SHARE * 2**30
    assert room_module.budget(CPU, 8, large) == room_module.budget(CPU, 8, 0) == limited


def test_the_budget_is_a_share_of_a_large_models_state_and_leaves_small_ones_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room_module, "machine_memory", lambda: 2**40)
    base, mini = 16 * 109_482_240, 16 * 22_700_000
    assert room_module.budget(CPU, 1, base) == pytest.approx(room_module.OF_STATE * base)
    # 64 Quora pairs in MiniLM: 128 sequences, and SMART works on them twice.
    shape = Architecture(hidden=384, layers=6, heads=12, intermediate=1536)
    pairs = shape.activation_bytes(np.full(128, 16)).sum()
    assert room_module.budget(CPU, 1, mini) / 2 > pairs


def test_the_state_is_weights_and_four_numbers_of_each_that_is_trained() -> None:
    model = torch.nn.Linear(3, 5)
    assert room_module.state_bytes(model) == 16 * 20
    model.weight.requires_grad_(False)
    assert room_module.state_bytes(model) == 4 * 15 + 16 * 5


PRODUCTS = """
import sys
from pathlib import Path
import torch
from minbert.engine.device import set_up_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

torch.set_num_threads(1)
if sys.argv[1] == "set up":
    set_up_memory()
weights = [torch.ones(out, 128, dtype=torch.bfloat16) for out in (128, 384, 512)]
before = resident()
for tokens in range(100, 150):
    x = torch.ones(tokens, 128, dtype=torch.bfloat16)
    for weight in weights:
        upper = torch.nn.functional.linear(x, weight)
        upper @ weight, upper.T @ x
print(resident() - before)
"""


@pytest.mark.skipif(
    not torch.cpu.get_capabilities().get("avx512_bf16"), reason="oneDNN compiles no bf16 here"
)
def test_code_for_batches_of_each_length_is_not_kept() -> None:
    grown = {}
    plain = {name: value for name, value in os.environ.items() if name not in device.KERNELS}
    for how in ("as it is", "set up"):
        command = [sys.executable, "-c", PRODUCTS, how]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=plain)
        grown[how] = int(done.stdout)
    assert grown["set up"] < grown["as it is"] / 3
