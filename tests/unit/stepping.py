"""Tiny learners, a step of all tasks, and its gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.finetune import Finetuned
from minbert.train.samplers import Step
from minbert.train.step import Gradients, Passes

CPU = torch.device("cpu")
STEP: Step = [
    ("sst", torch.tensor([1, 4, 2])),
    ("para", torch.tensor([0, 9, 3, 5])),
    ("sts", torch.tensor([8, 1])),
]
WEIGHTS = {"sst": {"weight": 1.0}, "para": {"weight": 2.0}, "sts": {"weight": 0.1}}


def learner(spec: StageSpec, sources: Any, seed: int = 0) -> Finetuned:
    torch.manual_seed(seed)
    made = Finetuned(spec, sources(*spec.tasks), CPU)
    made.module.train()
    return made


def losses(spec: StageSpec) -> dict[str, Any]:
    return {name: load_part("loss", task.loss)() for name, task in spec.tasks.items()}


def make_gradients(
    made: Finetuned, spec: StageSpec, draw: torch.Generator, **passes: Any
) -> Gradients:
    """Return what makes the gradients of steps; `passes` are more arguments of `Passes`."""
    return Gradients(spec, Passes(spec, made, losses(spec), **passes), draw)


def gradients(made: Finetuned, spec: StageSpec, step: Step, seed: int = 0) -> dict[str, Any]:
    """Run one step's backward passes; return the gradients by parameter name."""
    made.module.zero_grad(set_to_none=True)
    draw = torch.Generator().manual_seed(seed)
    make_gradients(made, spec, draw)(step)
    return {
        name: None if p.grad is None else p.grad.clone()
        for name, p in made.module.named_parameters()
    }


def task_loss(made: Finetuned, spec: StageSpec, task: str, rows: Tensor) -> Tensor:
    output, label = made.output(task, rows)
    return spec.tasks[task].weight * losses(spec)[task].loss(output, label)


def is_shared(name: str) -> bool:
    return name.startswith("encoder.shared.")


def assert_same(found: dict[str, Any], expected: dict[str, Any], **tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        if gradient is None:
            assert found[name] is None, name
        else:
            torch.testing.assert_close(found[name], gradient, msg=name, **tolerance)


def conflicting(spec: StageSpec, sources: Any) -> tuple[Finetuned, Tensor]:
    """Return a learner whose tasks conflict on `STEP`, and its shared gradients [tasks, P].

    At a random start labels decide: rows are chosen from those of opposite labels.
    """
    for seed in range(20):
        made = learner(spec, sources, seed)
        shared = made.shared_parameters()
        rows = []
        for task, batch in STEP:
            found = torch.autograd.grad(
                task_loss(made, spec, task, batch), shared, allow_unused=True
            )
            parts = zip(found, shared, strict=True)
            rows.append(
                torch.cat([(torch.zeros_like(p) if g is None else g).ravel() for g, p in parts])
            )
        jacobian = torch.stack(rows)
        if ((jacobian @ jacobian.T) < 0).sum() >= 4:
            return made, jacobian
    raise AssertionError("no seed made two pairs of tasks conflict")
