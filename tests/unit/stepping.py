"""Tiny models, a step of all tasks, its gradients, and loops that train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minbert.spec.stage import StageSpec
from minbert.train.checkpoints import Checkpoints
from minbert.train.features import cache_features
from minbert.train.run import Loop
from minbert.train.samplers import Step
from minbert.train.step import Gradients
from minbert.train.trainable import Finetuned, Sources

CPU = torch.device("cpu")
STEP: Step = [
    ("sst", torch.tensor([1, 4, 2])),
    ("para", torch.tensor([0, 9, 3, 5])),
    ("sts", torch.tensor([8, 1])),
]
WEIGHTS = {"sst": {"weight": 1.0}, "para": {"weight": 2.0}, "sts": {"weight": 0.1}}
SIAMESE = {"pairing": "siamese", "features": ["u", "v", "|u-v|"]}

AGGREGATORS = ("pcgrad", "cagrad", "nash_mtl", "upgrad")


def aggregator(name: str, tasks: int) -> Any:
    """Return torchjd's surgery, by our name."""
    from torchjd import aggregation as theirs  # A machine for the tests of a GPU need not have it.

    made = {"pcgrad": theirs.PCGrad, "upgrad": theirs.UPGrad}
    made |= {"cagrad": lambda: theirs.CAGrad(c=0.4), "nash_mtl": lambda: theirs.NashMTL(tasks)}
    return made[name]()


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tiny_model(spec: StageSpec, sources: Any, seed: int = 0) -> Finetuned:
    torch.manual_seed(seed)
    model = Finetuned(spec, sources(*spec.tasks), CPU)
    model.module.train()
    return model


def make_loop(
    spec: StageSpec, sources: Any, folder: Path = Path("nothing is kept"), seed: int = 0, **how: Any
) -> Loop:
    how = {"title": "test", "device": "cpu", "precision": "fp32", **how}
    loop = Loop(spec, seed, sources(*spec.tasks), Checkpoints(folder), **how)
    loop.model.module.train()
    return loop


def cached(spec: StageSpec, sources: Sources, folder: Path) -> dict[str, Path]:
    """Cache the features of a stage of heads; return their files by task."""
    found = {task: folder / f"{task}.safetensors" for task in spec.tasks}
    for task, out in found.items():
        how = {**spec.tasks[task].model_dump(), "max_length": 512}
        cache_features(how, sources.backbone, sources.tokens[task], out, CPU)
    return found


def grads(model: Finetuned) -> dict[str, Tensor | None]:
    return {name: p.grad for name, p in model.module.named_parameters()}


def backward(model: Finetuned, loss: Tensor) -> dict[str, Tensor | None]:
    """Return the gradients of `loss` by parameter name."""
    model.module.zero_grad(set_to_none=True)
    loss.backward()
    return grads(model)


def gradients(model: Finetuned, spec: StageSpec, step: Step, seed: int = 0) -> dict[str, Any]:
    """Run one step's backward passes; return the gradients by parameter name."""
    model.module.zero_grad(set_to_none=True)
    Gradients(spec, model, 0, generator(seed))(step)
    return {name: None if g is None else g.clone() for name, g in grads(model).items()}


def task_loss(model: Finetuned, spec: StageSpec, task: str, rows: Tensor) -> Tensor:
    """Return the weighted loss of a batch."""
    output, label = model.forward([(task, rows)])[0]
    return spec.tasks[task].weight * model.losses[task].loss(output, label)


def is_shared(name: str) -> bool:
    return name.startswith("encoder.shared.")


def assert_same(found: dict[str, Any], expected: dict[str, Any], **tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        if gradient is None:
            assert found[name] is None, name
        else:
            torch.testing.assert_close(found[name], gradient, msg=name, **tolerance)


def flat(gradients: Any, parameters: Any) -> Tensor:
    """Return gradients as one vector [P], with zeros where there is none."""
    pairs = zip(gradients, parameters, strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).ravel() for g, p in pairs])


def jacobian_of(model: Finetuned, losses: list[Tensor]) -> Tensor:
    """Return the gradients [n, P] of n losses by the shared parameters."""
    shared = list(model.module.trained_parameters().values())
    rows = [torch.autograd.grad(loss, shared, allow_unused=True) for loss in losses]
    return torch.stack([flat(row, shared) for row in rows])


def shared_gradient(model: Finetuned) -> Tensor:
    shared = list(model.module.trained_parameters().values())
    return flat([p.grad for p in shared], shared)


def conflicting(spec: StageSpec, sources: Any) -> tuple[Finetuned, Tensor]:
    """Return a model whose tasks conflict on `STEP`, and its shared gradients [tasks, P].

    At a random start labels decide: rows are chosen from those of opposite labels.
    """
    for seed in range(20):
        model = tiny_model(spec, sources, seed)
        jacobian = jacobian_of(model, [task_loss(model, spec, *batch) for batch in STEP])
        if ((jacobian @ jacobian.T) < 0).sum() >= 4:
            return model, jacobian
    raise AssertionError("no seed made two pairs of tasks conflict")


def projected(gradients: Tensor, draw: torch.Generator, itself: bool = False) -> Tensor:
    """Return gradients [n, P] as PCGrad changes each, by the paper's algorithm.

    Whether a gradient meets `itself` is up to the algorithm: in Pytorch-PCGrad it does.
    """
    changed = gradients.clone()
    for i, left in enumerate(changed):
        for j in torch.randperm(len(gradients), generator=draw).tolist():
            product = left @ gradients[j]
            if (itself or j != i) and product < 0:
                left.sub_(product / gradients[j].square().sum() * gradients[j])
    return changed
