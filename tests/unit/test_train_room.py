"""How much memory a batch's activations may take, and how larger batches are divided."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model_batches import pack
from stepping import CPU
from torch import Tensor

from minbert.model.encoder import initialise, whole_encoder
from minbert.spec.architecture import Architecture
from minbert.spec.encoders.modernbert import ModernBert
from minbert.spec.stage import Dropout
from minbert.train import device
from minbert.train import room as room_module


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
