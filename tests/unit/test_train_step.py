"""A step's gradients on tiny models: sums, surgery on what is shared, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from stepping import (
    AGGREGATORS,
    SIAMESE,
    STEP,
    WEIGHTS,
    aggregator,
    assert_same,
    backward,
    conflicting,
    generator,
    gradients,
    grads,
    is_shared,
    projected,
    shared_gradient,
    task_loss,
    tiny_model,
)
from torch import Tensor
from torchjd import scalarization as theirs

from minbert.train.samplers import Step
from minbert.train.step import Gradients

TWICE = [STEP[0], STEP[1], ("sst", torch.tensor([7]))]


def mixed(para: dict[str, Any]) -> dict[str, Any]:
    return {**WEIGHTS, "para": {**WEIGHTS["para"], **para}}


@pytest.mark.parametrize(
    ("shared_layers", "step"),
    [("all", STEP), (1, STEP), (0, STEP), ("none", TWICE)],
)
def test_without_surgery_the_gradient_is_that_of_the_weighted_sum(
    shared_layers: Any, step: Step, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=shared_layers)
    model = tiny_model(spec, sources)
    found = gradients(model, spec, step)
    losses = [task_loss(model, spec, task, rows) for task, rows in step]
    assert_same(found, backward(model, torch.stack(losses).sum()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shared_layers", "para"),
    [("all", {}), ("all", {"pooling": "mean"}), (1, SIAMESE), (0, {"convolution": {}})],
)
def test_one_pass_for_all_tasks_is_one_pass_a_task(
    shared_layers: Any, para: dict[str, Any], make_spec: Any, sources: Any
) -> None:
    spec = make_spec(mixed(para), still=True, shared_layers=shared_layers)
    found = []
    for all_fit in (True, False):
        model = tiny_model(spec, sources)
        sizes = [model.activations(*batch).sum() for batch in STEP]
        run = Gradients(spec, model, 0, generator(), sum(sizes) if all_fit else max(sizes))
        assert run.fits_jointly(STEP) == all_fit
        results = run(STEP)
        assert run.most_parts == 1
        told = [(r.task, r.rows.tolist(), r.weight, r.prediction.shape) for r in results]
        losses = torch.stack([each.loss for each in results])
        found.append((told, model.tokens_seen, losses, grads(model)))
    assert found[0][:2] == found[1][:2]
    torch.testing.assert_close(found[0][2], found[1][2], rtol=1e-6, atol=1e-6)
    assert_same(found[0][3], found[1][3], rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:You are solving a parameterized problem")
@pytest.mark.parametrize(
    ("name", "shared_layers"), [("pcgrad", "all"), ("pcgrad", 0), *((n, 1) for n in AGGREGATORS)]
)
def test_surgery_is_torchjds_on_what_is_shared_and_leaves_the_rest(
    name: str, shared_layers: Any, make_spec: Any, sources: Any
) -> None:
    plain = make_spec(WEIGHTS, still=True, shared_layers=shared_layers)
    model, jacobian = conflicting(plain, sources)
    without = gradients(model, plain, STEP)
    own = {n for n in without if not is_shared(n)}
    assert any(n.startswith("heads.") for n in own)
    assert any(n.startswith("encoder.own.") for n in own) == (shared_layers != "all")
    for seed in (0, 1):
        found = gradients(model, plain.model_copy(update={"surgery": name}), STEP, seed)
        assert_same({n: found[n] for n in own}, {n: without[n] for n in own}, rtol=0, atol=1e-7)
        torch.manual_seed(seed)
        expected = aggregator(name, len(STEP))(jacobian.double())
        assert (shared_gradient(model) - expected).abs().max() <= 1e-6 * expected.abs().max()


def pytorch_pcgrad(gradients: list[Any], draw: torch.Generator) -> list[Tensor]:
    """Return the gradients that Pytorch-PCGrad sets, from those of each task; None: it has none.

    As in the library, they are laid out as one vector per task, and merged entry by entry.
    """
    likes = [next(g for g in of if g is not None) for of in zip(*gradients, strict=True)]
    rows, used = [], []
    for task in gradients:
        pairs = list(zip(task, likes, strict=True))
        vector = [(torch.zeros_like(like) if g is None else g).ravel() for g, like in pairs]
        rows.append(torch.cat(vector).double())
        used.append(torch.cat([torch.full_like(like, g is not None).ravel() for g, like in pairs]))
    both = projected(torch.stack(rows), draw, itself=True)
    merged = torch.where(torch.stack(used).prod(0) > 0, both.mean(0), both.sum(0)).float()
    parts = merged.split([like.numel() for like in likes])
    return [part.view_as(like) for part, like in zip(parts, likes, strict=True)]


@pytest.mark.parametrize(
    ("seed", "shared_layers", "pooling"), [(0, "all", "cls"), (1, 1, "mean"), (0, 0, "cls")]
)
def test_whole_gradients_are_merged_as_in_pytorch_pcgrad(
    seed: int, shared_layers: Any, pooling: str, make_spec: Any, sources: Any
) -> None:
    settings = {"surgery": "pytorch_pcgrad", "shared_layers": shared_layers}
    spec = make_spec(mixed({"pooling": pooling}), still=True, **settings)
    model, _ = conflicting(spec, sources)
    Gradients(spec, model, 0, generator(seed))(STEP)
    found, parameters = grads(model), list(model.module.parameters())
    by_task = [
        torch.autograd.grad(task_loss(model, spec, *batch), parameters, allow_unused=True)
        for batch in STEP
    ]
    used = [n for n, *of in zip(found, *by_task, strict=True) if any(g is not None for g in of)]
    assert [n for n, gradient in found.items() if gradient is not None] == used
    kept = [[g for n, g in zip(found, task, strict=True) if n in used] for task in by_task]
    expected = pytorch_pcgrad(kept, generator(seed))
    largest = max(gradient.abs().max() for gradient in expected)
    for name, wanted in zip(used, expected, strict=True):
        gradient = found[name]
        assert (gradient - wanted).abs().max() <= 1e-6 * largest, name


SCALARIZERS: dict[str, Callable[[], Any]] = {
    "random": theirs.Random,
    "uncertainty": lambda: theirs.UW(3),
}


@pytest.mark.parametrize("budget", [float("inf"), 1.0], ids=["jointly", "in parts"])
@pytest.mark.parametrize("name", SCALARIZERS)
def test_weighted_steps_are_torchjds(
    name: str, budget: float, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=1, weighting=name)
    model, other = tiny_model(spec, sources), SCALARIZERS[name]()
    run = Gradients(spec, model, 0, generator(7), budget)
    learned = run.weighting.parameters()
    for ours in learned:
        ours.data = other.log_var.data = torch.tensor([0.5, -1.0, 2.0])
    torch.manual_seed(7)
    losses = torch.stack([task_loss(model, spec, *batch) for batch in STEP])
    losses.retain_grad()
    wanted = backward(model, other(losses))
    model.module.zero_grad(set_to_none=True)
    run.measure = True
    run(STEP)
    assert_same(grads(model), wanted, rtol=1e-4, atol=1e-6)
    assert {*learned} <= {*run.parameters()}
    assert [p.grad for p in learned] == [pytest.approx(p.grad) for p in other.parameters()]
    told = [run.measured[task, "task_weight"] / WEIGHTS[task]["weight"] for task, _ in STEP]
    assert told == pytest.approx(losses.grad.tolist())


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
def test_a_mean_divides_by_the_tasks_of_the_step_and_losses_are_noted_as_they_are(
    surgery: str | None, make_spec: Any, sources: Any
) -> None:
    plain = make_spec(WEIGHTS, still=True, surgery=surgery)
    spec = plain.model_copy(update={"reduction": "mean"})
    model = tiny_model(spec, sources)
    whole = gradients(model, plain, STEP)
    expected = {n: None if g is None else g / len(STEP) for n, g in whole.items()}
    assert_same(gradients(model, spec, STEP), expected, rtol=1e-4, atol=1e-7)
    for result, (task, rows) in zip(
        Gradients(spec, model, 0, generator())(STEP), STEP, strict=True
    ):
        weight = spec.tasks[task].weight
        assert (result.task, result.weight) == (task, weight / len(STEP))
        assert result.rows.tolist() == rows.tolist()
        loss = task_loss(model, spec, task, rows).item() / weight
        assert result.loss.item() == pytest.approx(loss, rel=1e-5)
