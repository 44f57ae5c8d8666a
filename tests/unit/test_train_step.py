"""A step's gradients on tiny models: sums, surgery on what is shared, and nothing else."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torchjd.aggregation import PCGrad

from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.train.finetune import Finetuned
from minbert.train.samplers import Step
from minbert.train.step import Gradients

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


def gradients(made: Finetuned, spec: StageSpec, step: Step, seed: int = 0) -> dict[str, Any]:
    """Run one step's backward passes; return the gradients by parameter name."""
    made.module.zero_grad(set_to_none=True)
    draw = torch.Generator().manual_seed(seed)
    Gradients(spec, made, losses(spec), nullcontext, draw)(step, lambda *_: None)
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


@pytest.mark.parametrize("shared_layers", ["all", 1, 0, "none"])
def test_without_surgery_the_gradient_is_that_of_the_weighted_sum(
    shared_layers: Any, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=shared_layers)
    made = learner(spec, sources)
    found = gradients(made, spec, STEP)
    made.module.zero_grad(set_to_none=True)
    torch.stack([task_loss(made, spec, task, rows) for task, rows in STEP]).sum().backward()
    assert_same(found, {n: p.grad for n, p in made.module.named_parameters()}, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shared_layers", ["all", 1, 0])
def test_surgery_leaves_heads_and_own_layers_as_they_are(
    shared_layers: Any, make_spec: Any, sources: Any
) -> None:
    plain = make_spec(WEIGHTS, still=True, shared_layers=shared_layers)
    operated = plain.model_copy(update={"surgery": "pcgrad"})
    made, _ = conflicting(plain, sources)
    without, with_surgery = (gradients(made, spec, STEP) for spec in (plain, operated))
    own = {n for n in without if not is_shared(n)}
    assert any(n.startswith("heads.") for n in own)
    assert any(n.startswith("encoder.own.") for n in own) == (shared_layers != "all")
    assert_same({n: with_surgery[n] for n in own}, {n: without[n] for n in own}, rtol=0, atol=1e-7)
    changed = [n for n in without if is_shared(n) and without[n] is not None]
    assert all(not torch.equal(without[n], with_surgery[n]) for n in changed)


@pytest.mark.parametrize("shared_layers", ["all", 1, 0])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_shared_gradient_is_torchjds_of_the_full_jacobian(
    shared_layers: Any, seed: int, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=shared_layers, surgery="pcgrad")
    made, jacobian = conflicting(spec, sources)
    found = gradients(made, spec, STEP, seed)
    flat = torch.cat(
        [
            (torch.zeros_like(p) if found[n] is None else found[n]).ravel()
            for n, p in made.module.named_parameters()
            if is_shared(n)
        ]
    )
    torch.manual_seed(seed)
    expected = PCGrad()(jacobian)
    assert (flat - expected).abs().max() <= 1e-6 * expected.abs().max()


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
def test_the_gramian_is_told_only_where_one_is_made(
    surgery: str | None, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, surgery=surgery)
    made, jacobian = conflicting(spec, sources)
    products = Gradients(spec, made, losses(spec), nullcontext, torch.Generator())(
        STEP, lambda *_: None
    )
    if surgery is None:
        assert products is None
    else:
        assert products is not None
        torch.testing.assert_close(products, jacobian @ jacobian.T, rtol=1e-4, atol=1e-4)


def test_surgery_on_a_step_of_one_task_changes_nothing(make_spec: Any, sources: Any) -> None:
    plain = make_spec(WEIGHTS, still=True)
    made = learner(plain, sources)
    operated = plain.model_copy(update={"surgery": "pcgrad"})
    assert_same(gradients(made, operated, STEP[:1]), gradients(made, plain, STEP[:1]))


def test_nothing_shared_is_three_runs_of_their_own(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers="none")
    made = learner(spec, sources)
    joint = gradients(made, spec, STEP)
    for task, rows in STEP:
        alone = make_spec({task: WEIGHTS[task]}, still=True, shared_layers="none")
        single = learner(alone, sources)
        single.module.heads[task].load_state_dict(made.module.heads[task].state_dict())
        found = gradients(single, alone, [(task, rows)])
        assert_same({name: joint[name] for name in found}, found, rtol=0, atol=0)


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
def test_what_no_task_uses_has_no_gradient(
    surgery: str | None, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, everywhere={"pooling": "mean"}, still=True, surgery=surgery)
    found = gradients(learner(spec, sources), spec, STEP)
    unused = {name for name, gradient in found.items() if gradient is None}
    assert unused == {f"encoder.shared.pooler.dense.{kind}" for kind in ("weight", "bias")}


def test_a_task_that_is_not_in_the_step_gets_no_gradient(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, surgery="pcgrad", shared_layers=1)
    found = gradients(learner(spec, sources), spec, STEP[:2])
    for name, gradient in found.items():
        assert (gradient is None) == (name.startswith(("heads.sts.", "encoder.own.sts."))), name


def test_each_tasks_unweighted_loss_is_noted(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True)
    made = learner(spec, sources)
    noted: list[tuple[str, list[int], float, float]] = []
    run = Gradients(spec, made, losses(spec), nullcontext, torch.Generator())
    run(STEP, lambda t, rows, weight, loss: noted.append((t, rows.tolist(), weight, loss.item())))
    expected = [
        (t, rows.tolist(), spec.tasks[t].weight, task_loss(made, spec, t, rows).item())
        for t, rows in STEP
    ]
    for (*names, loss), (*wanted, weighted) in zip(noted, expected, strict=True):
        assert names == wanted
        assert loss * names[2] == pytest.approx(weighted, rel=1e-5)


@pytest.mark.parametrize("step", [STEP, STEP[:2], STEP[1:2]], ids=len)
def test_a_mean_divides_by_the_tasks_of_the_step(step: Step, make_spec: Any, sources: Any) -> None:
    summed = make_spec(WEIGHTS, still=True)
    mean = summed.model_copy(update={"reduction": "mean"})
    made = learner(summed, sources)
    expected = gradients(made, summed, step)
    expected = {n: None if g is None else g / len(step) for n, g in expected.items()}
    assert_same(gradients(made, mean, step), expected, rtol=1e-4, atol=1e-7)
    noted = []
    run = Gradients(mean, made, losses(mean), nullcontext, torch.Generator())
    run(step, lambda task, _, weight, loss: noted.append((task, weight, loss.item())))
    for (task, weight, loss), (wanted, rows) in zip(noted, step, strict=True):
        assert (task, weight) == (wanted, mean.tasks[task].weight / len(step))
        unweighted = task_loss(made, mean, task, rows).item() / mean.tasks[task].weight
        assert loss == pytest.approx(unweighted, rel=1e-5), "the loss is noted as it is"


def test_without_surgery_a_task_may_come_twice(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True)
    made = learner(spec, sources)
    one, other = (("sst", torch.tensor(rows)) for rows in ([1, 4], [2]))
    parts = [gradients(made, spec, [batch]) for batch in (one, other)]
    expected = {n: None if g is None else g + parts[1][n] for n, g in parts[0].items()}
    assert_same(gradients(made, spec, [one, other]), expected, rtol=1e-4, atol=1e-6)


SMART = {"weight": 4.0, "noise": 0.1, "step": 0.1, "radius": 0.2}


def penalised(spec: StageSpec, made: Finetuned, seed: int) -> list[Tensor]:
    """Return the weighted losses of `STEP`, each with SMART's penalty; `seed` is the noise's."""
    penalty = load_part("penalty", "smart")(spec, made, losses(spec), seed)
    found = []
    for task, rows in STEP:
        output, label = made.output(task, rows)
        loss = losses(spec)[task].loss(output, label) + penalty(task, rows, output)
        found.append(spec.tasks[task].weight * loss)
    return found


@pytest.mark.parametrize("shared_layers", ["all", 1])
def test_smarts_penalty_has_its_tasks_weight_and_its_gradient(
    shared_layers: Any, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=shared_layers, smart=SMART)
    made = learner(spec, sources)
    names, parameters = zip(*made.module.named_parameters(), strict=True)
    total = torch.stack(penalised(spec, made, seed=0)).sum()
    expected = dict(
        zip(names, torch.autograd.grad(total, parameters, allow_unused=True), strict=True)
    )
    found = gradients(made, spec, STEP)
    assert_same(found, expected, rtol=1e-3, atol=1e-5)
    without = gradients(made, spec.model_copy(update={"smart": None}), STEP)
    assert any(
        g is not None and not torch.allclose(g, found[n], rtol=1e-2) for n, g in without.items()
    )


def test_smarts_penalty_pulls_at_the_clean_output_too(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=SMART)
    made = learner(spec, sources)
    penalty = load_part("penalty", "smart")(spec, made, losses(spec), 0)
    rows = STEP[2][1]
    output, _ = made.output("sts", rows)
    value = penalty("sts", rows, output)
    (slope,) = torch.autograd.grad(value, output)
    # value = weight * mean of (moved - output)^2, so its slope's squares tell the value.
    assert value > 0
    weight, n = SMART["weight"], len(rows)
    assert (slope * n / (2 * weight)).square().mean() * weight == pytest.approx(
        value.item(), rel=1e-4
    )


def test_surgery_is_on_the_gradients_of_losses_with_their_penalties(
    make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, surgery="pcgrad", smart=SMART)
    made, _ = conflicting(spec, sources)
    shared = made.shared_parameters()
    rows: list[Tensor] = []
    own: dict[str, Any] = {}
    for (task, _), loss in zip(STEP, penalised(spec, made, seed=0), strict=True):
        head = dict(made.module.heads[task].named_parameters(prefix=f"heads.{task}"))
        found = torch.autograd.grad(loss, [*shared, *head.values()], allow_unused=True)
        parts = zip(found[: len(shared)], shared, strict=True)
        rows.append(
            torch.cat([(torch.zeros_like(p) if g is None else g).ravel() for g, p in parts])
        )
        own |= dict(zip(head, found[len(shared) :], strict=True))
    jacobian = torch.stack(rows)
    draw = torch.Generator().manual_seed(3)
    run = Gradients(spec, made, losses(spec), nullcontext, draw)
    made.module.zero_grad(set_to_none=True)
    products = run(STEP, lambda *_: None)
    torch.testing.assert_close(products, jacobian @ jacobian.T, rtol=1e-3, atol=1e-3)
    torch.manual_seed(3)
    expected = PCGrad()(jacobian)
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).ravel() for p in shared])
    assert F.cosine_similarity(flat, expected, dim=0) > 1 - 1e-5
    assert (flat - expected).abs().max() <= 1e-3 * expected.abs().max()
    heads = {n: p.grad for n, p in made.module.named_parameters() if n.startswith("heads.")}
    assert_same(heads, own, rtol=1e-3, atol=1e-5)


def test_smart_draws_its_noise_from_a_generator_of_its_own(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=SMART)
    made = learner(spec, sources)
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(7)
        draw = torch.Generator().manual_seed(7)
        before = torch.get_rng_state(), draw.get_state()
        noted: list[float] = []
        run = Gradients(spec, made, losses(spec), nullcontext, draw, seed)
        for _ in range(2):
            run(STEP, lambda *told, noted=noted: noted.append(told[3].item()))
        assert torch.equal(torch.get_rng_state(), before[0])
        assert torch.equal(draw.get_state(), before[1])
        found.append(noted)
    assert found[0] == found[1] != found[2]
    assert found[0][:3] != found[0][3:], "each step has noise of its own"


def test_smart_in_bf16_has_a_finite_fp32_loss(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=SMART)
    made = learner(spec, sources)
    values: dict[bool, list[float]] = {}
    for half in (False, True):
        noted: list[Tensor] = []
        run = Gradients(
            spec,
            made,
            losses(spec),
            lambda half=half: torch.autocast("cpu", torch.bfloat16, enabled=half),
            torch.Generator(),
        )
        run(STEP, lambda *told, noted=noted: noted.append(told[3].detach()))
        assert all(loss.dtype == torch.float32 for loss in noted)
        values[half] = [loss.item() for loss in noted]
    assert values[True] == pytest.approx(values[False], rel=0.1)
