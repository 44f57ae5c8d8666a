"""Batches in parts: the same step in less memory, and one more try where memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from stepping import (
    SIAMESE,
    STEP,
    assert_same,
    generator,
    grads,
    make_loop,
    tiny_model,
)
from torch import Tensor

from minbert.base.errors import UserError
from minbert.train.loop import Loop
from minbert.train.samplers import Step
from minbert.train.step import Gradients
from minbert.train.surgery.gradients import combine


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
    """Let batches of more than `most` examples run out of memory."""
    output: Callable[..., Any] = loop.model.output
    joint: Callable[..., Any] = loop.model.joint_forward

    def limited(task: str, rows: Tensor) -> Any:
        if len(rows) > most:
            raise error
        return output(task, rows)

    def limited_jointly(step: Step) -> Any:
        if sum(len(rows) for _, rows in step) > most:
            raise error
        return joint(step)

    monkeypatch.setattr(loop.model, "output", limited)
    monkeypatch.setattr(loop.model, "joint_forward", limited_jointly)


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
    both = (loop.model.module.parameters() for loop in (hard, easy))
    for ours, expected in zip(*both, strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6)
    told = capsys.readouterr().err
    assert told.count("out of memory at step") == 1
    assert "MiB of activations" in told


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
    failing = [torch.OutOfMemoryError("CUDA out of memory")]

    def once(*given: Any, **named: Any) -> Any:
        if failing:
            raise failing.pop()
        return combine(*given, **named)

    monkeypatch.setattr("minbert.train.step.combine", once)
    loop.step(STEP)
    assert not failing and len(loop.meter.unread) == len(STEP)
    assert loop.gradients.weighting is not None
    assert loop.gradients.weighting.state_dict()["steps"] == 1
