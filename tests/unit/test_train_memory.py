"""What activations may take, batches in parts, and one more try where memory runs out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model_batches import pack
from stepping import CPU, SIAMESE, STEP, assert_same, generator, grads, make_loop, tiny_model
from torch import Tensor, nn

from minbert.base.errors import UserError
from minbert.model.encoder import initialise, whole_encoder
from minbert.spec.architecture import Architecture
from minbert.spec.encoders.modernbert import ModernBert
from minbert.spec.stage import Dropout
from minbert.train import activation_budget as room
from minbert.train import device
from minbert.train.loop import Loop
from minbert.train.samplers import Step
from minbert.train.step import Gradients
from minbert.train.surgery.gradients import combine


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.1, 300))
def test_a_division_keeps_order_and_budget(sizes: list[float], budget: float) -> None:
    parts = list(room.divide(np.array(sizes), budget))
    assert [n for part in parts for n in range(len(sizes))[part]] == list(range(len(sizes)))
    if sum(sizes) <= budget * (1 - 1e-9):
        assert len(parts) == 1
        return
    budget *= room.PART if len(parts) > 1 else 1
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        inside = sizes[part]
        assert len(inside) == 1 or sum(inside) <= budget * (1 + 1e-9)
        if after is not None:
            assert sum(inside) + sizes[after.start] > budget * (1 - 1e-9)


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
        assert encoder.train()(batch).requires_grad
    weights = {p.untyped_storage().data_ptr() for p in encoder.parameters()}
    measured = sum(n for pointer, n in kept.items() if pointer not in weights)
    assert 0.8 < arch.activation_bytes(np.array(lengths)).sum() / measured < 1.6


def model_of(parameters: int, trained: bool = True) -> nn.Module:
    return nn.Linear(parameters, 1, bias=False, device="meta").requires_grad_(trained)


def test_the_budget_is_a_share_of_the_machine_and_keeps_to_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room.os, "cpu_count", lambda: 8)
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(device, "CGROUP", limit)
    large = model_of(2**46)
    whole = room.activation_budget(CPU, 8, large)
    assert room.activation_budget(CPU, 2, large) == pytest.approx(whole / 4)
    limit.write_text("max\n")
    assert room.activation_budget(CPU, 8, large) == whole
    limit.write_text(f"{2**30}\n")
    found = [room.activation_budget(CPU, 8, model) for model in (large, model_of(1))]
    assert found == [room.SHARE * 2**30] * 2


def test_the_budget_is_a_share_of_a_large_models_state_and_leaves_small_ones_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The state is weights, and a gradient and two moments of each that is trained."""
    monkeypatch.setattr(room, "machine_memory", lambda: 2**40)
    base, mini = model_of(109_482_240), model_of(22_700_000)
    state = 16 * 109_482_240
    assert room.activation_budget(CPU, 1, base) == pytest.approx(room.OF_STATE * state)
    frozen = model_of(109_482_240, trained=False)
    assert room.activation_budget(CPU, 1, frozen) == pytest.approx(room.SMALL - state / 4)
    # 64 Quora pairs in MiniLM: 128 sequences, and SMART works on them twice.
    shape = Architecture(hidden=384, layers=6, heads=12, intermediate=1536)
    pairs = shape.activation_bytes(np.full(128, 16)).sum()
    assert room.activation_budget(CPU, 1, mini) / 2 > pairs


@pytest.mark.parametrize(
    "settings", [{}, {"surgery": "pcgrad"}, {"shared_layers": 1}, {"weighting": "geometric_mean"}]
)
def test_parts_add_up_to_the_whole_batch(
    settings: dict[str, Any], make_spec: Any, sources: Any
) -> None:
    spec = make_spec({"sst": {}, "para": SIAMESE, "sts": {}}, still=True, **settings)
    found = []
    for budget, parts in ((float("inf"), 1), (1.0, 4)):
        model = tiny_model(spec, sources)
        run = Gradients(spec, model, 0, generator(), budget)
        found.append((run(STEP)[0], grads(model)))
        assert run.most_parts == parts
    (told, whole), (told_of_parts, divided) = found
    assert_same(divided, whole, rtol=1e-4, atol=1e-6)
    for one_pass, several in zip(told, told_of_parts, strict=True):
        assert (one_pass.task, one_pass.weight) == (several.task, several.weight)
        assert torch.equal(one_pass.rows, several.rows)
        torch.testing.assert_close(one_pass.prediction, several.prediction, rtol=1e-4, atol=1e-5)
        assert one_pass.loss.item() == pytest.approx(several.loss.item(), rel=1e-5)


def run_out(loop: Loop, monkeypatch: pytest.MonkeyPatch, most: int, error: BaseException) -> None:
    """Let passes over more than `most` examples run out of memory."""
    forward = loop.model.forward

    def limited(step: Step) -> Any:
        if sum(len(rows) for _, rows in step) > most:
            raise error
        return forward(step)

    monkeypatch.setattr(loop.model, "forward", limited)


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
        loop.step(STEP)
        loop.step(STEP)
    assert hard.gradients.most_parts > 1 == easy.gradients.most_parts
    assert len(hard.meter.unread) == len(easy.meter.unread)
    ours, expected = (list(loop.model.module.parameters()) for loop in (hard, easy))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6)
    told = capsys.readouterr().err
    assert told.count("out of memory at step") == 1 and "MiB of activations" in told


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (NO_MEMORY[0], UserError, r"3 of sst, 4 of para.*Lower 'batch_size'.*CUDA"),
        (RuntimeError("shapes do not fit"), RuntimeError, "^shapes do not fit"),
    ],
)
def test_a_step_that_runs_out_twice_says_what_to_do_and_other_errors_are_not_tried_again(
    error: BaseException,
    kind: type[BaseException],
    message: str,
    make_spec: Any,
    sources: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = make_loop(make_spec(), sources)
    run_out(loop, monkeypatch, 0, error)
    with pytest.raises(kind, match=message):
        loop.step(STEP)


def test_a_step_that_runs_out_in_its_surgery_is_told_once(
    make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make_loop(make_spec(surgery="pcgrad", weighting="dynamic_average"), sources)
    failing = [NO_MEMORY[0]]

    def once(*given: Any, **named: Any) -> Any:
        if failing:
            raise failing.pop()
        return combine(*given, **named)

    monkeypatch.setattr("minbert.train.step.combine", once)
    loop.step(STEP)
    assert not failing and len(loop.meter.unread) == len(STEP)
    assert loop.gradients.weighting.state_dict()["steps"] == 1
