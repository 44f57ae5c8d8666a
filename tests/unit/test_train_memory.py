"""What activations may take, batches in parts, and one more try where memory runs out."""

from __future__ import annotations

from itertools import chain, pairwise
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
from minbert.train import device
from minbert.train import step as room
from minbert.train.samplers import Step
from minbert.train.step import Gradients


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.1, 300))
def test_a_division_keeps_order_and_budget(sizes: list[float], budget: float) -> None:
    parts = [sizes[part] for part in room.divide(np.array(sizes), budget)]
    assert list(chain(*parts)) == sizes
    if len(parts) > 1:
        budget *= room.PART
    near = 1 + 1e-9
    assert all(len(part) == 1 or sum(part) <= budget * near for part in parts)
    for part, (first, *_) in pairwise(parts):
        assert (sum(part) + first) * near > budget, "no part could be larger"


@pytest.mark.parametrize("lengths", [[12] * 16, [200, 180]])
@pytest.mark.parametrize(("kind", "intermediate"), [(Architecture, 256), (ModernBert, 96)])
def test_the_estimate_is_near_what_a_backward_pass_keeps(
    lengths: list[int], kind: type[Architecture], intermediate: int
) -> None:
    shapes = {"hidden": 64, "layers": 3, "heads": 4, "positions": 256}
    arch = kind(vocab_size=50, intermediate=intermediate, **shapes)
    encoder = whole_encoder(arch, Dropout())
    initialise(encoder)
    count = sum(lengths)
    batch = pack(torch.arange(count) % 50, [0] * count, lengths)
    kept = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        assert encoder.train()(batch).requires_grad
    for parameter in encoder.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    assert 0.8 < arch.activation_bytes(np.array(lengths)).sum() / sum(kept.values()) < 1.6


def budget(threads: int, parameters: int, trained: bool = True) -> float:
    module = nn.Linear(parameters, 1, bias=False, device="meta").requires_grad_(trained)
    return room.activation_budget(CPU, threads, module)


def test_the_budget_is_a_share_of_the_machine_and_of_a_large_models_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is weights, and a gradient and two moments of each that is trained."""
    monkeypatch.setattr(room.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(device, "CGROUP", limit := tmp_path / "memory.max")
    limit.write_text(f"{2**30}\n")
    assert [budget(n, 2**46) for n in (8, 2)] == [room.SHARE * 2**30, room.SHARE * 2**28]
    limit.write_text("max\n")
    assert budget(8, 2**46) > room.SHARE * 2**30
    monkeypatch.setattr(room, "machine_memory", lambda: 2**40)
    assert budget(8, 10**8) == room.OF_STATE * 16 * 10**8
    assert budget(8, 10**8, trained=False) == room.SMALL - 4 * 10**8


@pytest.mark.parametrize("settings", [{}, {"surgery": "pcgrad"}, {"shared_layers": 1}])
def test_parts_add_up_to_the_whole_batch(
    settings: dict[str, Any], make_spec: Any, sources: Any
) -> None:
    spec = make_spec({"sst": {}, "para": SIAMESE, "sts": {}}, still=True, **settings)
    found = []
    for of_budget, parts in ((float("inf"), 1), (1.0, 4)):
        model = tiny_model(spec, sources)
        run = Gradients(spec, model, 0, generator(), of_budget)
        results = run(STEP)
        assert run.most_parts == parts
        told = [(r.task, r.weight, r.rows.tolist()) for r in results]
        found.append((told, [(r.loss, r.prediction) for r in results], grads(model)))
    (told, losses, whole), (told_of_parts, losses_of_parts, divided) = found
    assert told == told_of_parts
    torch.testing.assert_close(losses_of_parts, losses, rtol=1e-4, atol=1e-5)
    assert_same(divided, whole, rtol=1e-4, atol=1e-6)


def limited(loop: Any, most: int, error: str) -> Any:
    """Let passes of `loop` over more than `most` examples fail with `error`."""
    forward = loop.model.forward

    def limit(step: Step) -> Any:
        if sum(len(rows) for _, rows in step) > most:
            raise RuntimeError(error)
        return forward(step)

    loop.model.forward = limit
    return loop


def test_a_step_without_memory_is_made_again_in_parts(
    make_spec: Any, sources: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    easy, hard = (make_loop(make_spec(still=True), sources) for _ in range(2))
    for loop in (easy, limited(hard, 3, "CUDA out of memory")):
        loop.step(STEP)
        loop.step(STEP)
    assert hard.gradients.most_parts > 1 == easy.gradients.most_parts
    assert len(hard.history.unread) == len(easy.history.unread)
    ours, expected = (list(loop.model.module.parameters()) for loop in (hard, easy))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6)
    assert capsys.readouterr().err.count("out of memory at step") == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            "CUDA out of memory",
            "out of memory at step 0, also in smaller parts. Lower 'batch_size'",
        ),
        ("shapes do not fit", "shapes do not fit"),
    ],
)
def test_a_second_time_and_other_errors_are_not_tried_again(
    error: str, told: str, make_spec: Any, sources: Any
) -> None:
    with pytest.raises((UserError, RuntimeError), match=told):
        limited(make_loop(make_spec(), sources), 0, error).step(STEP)
