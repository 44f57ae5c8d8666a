"""A step's gradients on tiny models: sums, surgery on what is shared, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from stepping import (
    STEP,
    WEIGHTS,
    assert_same,
    conflicting,
    gradients,
    is_shared,
    learner,
    make_gradients,
    task_loss,
)
from torch import Tensor
from torchjd.aggregation import PCGrad

from minbert.train.samplers import Step


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


MIXTURES: dict[str, dict[str, Any]] = {
    "cls": {},
    "mean": {"pooling": "mean"},
    "siamese": {"pairing": "siamese", "features": ["u", "v", "|u-v|"]},
    "a convolution": {"convolution": {}},
}


@pytest.mark.parametrize("shared_layers", ["all", 1, 0])
@pytest.mark.parametrize("para", MIXTURES)
def test_one_pass_for_all_tasks_is_one_pass_a_task(
    shared_layers: Any, para: str, make_spec: Any, sources: Any
) -> None:
    tasks = {**WEIGHTS, "para": {**WEIGHTS["para"], **MIXTURES[para]}}
    spec = make_spec(tasks, still=True, shared_layers=shared_layers)
    found = []
    for all_fit in (True, False):
        made = learner(spec, sources)
        sizes = [made.activations(*batch).sum() for batch in STEP]
        room = sum(sizes) if all_fit else max(sizes)
        run = make_gradients(made, spec, torch.Generator(), room=room)
        assert run.passes.fits_together(STEP) == all_fit
        trained, _ = run(STEP)
        assert run.passes.parts == 1
        told = [(t.task, t.rows.tolist(), t.weight, t.prediction.shape) for t in trained]
        losses = torch.stack([each.loss for each in trained])
        gradients = {n: p.grad for n, p in made.module.named_parameters()}
        found.append((told, losses, made.tokens_seen, gradients))
    (told, losses, seen, together), (*expected, apart) = found
    assert [told, seen] == [expected[0], expected[2]]
    torch.testing.assert_close(losses, expected[1], rtol=1e-6, atol=1e-6)
    assert_same(together, apart, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"shared_layers": "none"},
        {"shared_layers": 1, "shared_end": "top"},
        {"smart": {"weight": 1}},
    ],
    ids=["nothing is shared", "the first layers are not", "SMART perturbs each task"],
)
def test_passes_are_a_tasks_own_where(
    settings: dict[str, Any], make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, **settings)
    run = make_gradients(learner(spec, sources), spec, torch.Generator())
    assert not run.passes.fits_together(STEP)
    assert len(run(STEP)[0]) == len(STEP)


def test_a_step_of_one_task_twice_goes_through_together(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True)
    made = learner(spec, sources)
    step = [STEP[0], STEP[1], ("sst", torch.tensor([7]))]
    found = gradients(made, spec, step)
    made.module.zero_grad(set_to_none=True)
    torch.stack([task_loss(made, spec, task, rows) for task, rows in step]).sum().backward()
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


def pytorch_pcgrad(gradients: list[Any], draw: torch.Generator) -> list[Tensor]:
    """Return the gradients that Pytorch-PCGrad sets, from those of each task; None: it has none.

    As in the library, they are laid out as one vector per task, and merged entry by entry.
    """
    likes = [next(g for g in of if g is not None) for of in zip(*gradients, strict=True)]
    rows, used = [], []
    for task in gradients:
        pairs = list(zip(task, likes, strict=True))
        flat = [(torch.zeros_like(like) if g is None else g).ravel() for g, like in pairs]
        rows.append(torch.cat(flat).double())
        used.append(torch.cat([torch.full_like(like, g is not None).ravel() for g, like in pairs]))
    changed = []
    for gradient in rows:
        left = gradient.clone()
        for j in torch.randperm(len(rows), generator=draw).tolist():
            product = left @ rows[j]
            if product < 0:
                left -= product * rows[j] / rows[j].norm() ** 2
        changed.append(left)
    both = torch.stack(changed)
    merged = torch.where(torch.stack(used).prod(0) > 0, both.mean(0), both.sum(0)).float()
    parts = merged.split([like.numel() for like in likes])
    return [part.view_as(like) for part, like in zip(parts, likes, strict=True)]


@pytest.mark.parametrize("weighting", [None, "geometric_mean"])
@pytest.mark.parametrize("para", [{}, MIXTURES["mean"]], ids=["all use the pooler", "two do"])
@pytest.mark.parametrize("shared_layers", ["all", 1, 0])
@pytest.mark.parametrize("seed", [0, 1])
def test_whole_gradients_are_merged_as_in_pytorch_pcgrad(
    seed: int, shared_layers: Any, para: Any, weighting: Any, make_spec: Any, sources: Any
) -> None:
    tasks = {**WEIGHTS, "para": {**WEIGHTS["para"], **para}}
    settings = {"surgery": "pytorch_pcgrad", "weighting": weighting}
    spec = make_spec(tasks, still=True, shared_layers=shared_layers, **settings)
    made, _ = conflicting(spec, sources)
    run = make_gradients(made, spec, torch.Generator().manual_seed(seed))
    run.passes.measure = True
    trained, told = run(STEP)
    names, parameters = zip(*made.module.named_parameters(), strict=True)
    found = dict(zip(names, [p.grad for p in parameters], strict=True))
    by_task = []
    for (task, rows), each in zip(STEP, trained, strict=True):
        factor = each.measured.get("task_weight", each.weight) / each.weight
        loss = factor * task_loss(made, spec, task, rows)
        by_task.append(list(torch.autograd.grad(loss, parameters, allow_unused=True)))
    unused = [n for n, *of in zip(names, *by_task, strict=True) if all(g is None for g in of)]
    assert [n for n, gradient in found.items() if gradient is None] == unused
    kept = [place for place, name in enumerate(names) if name not in unused]
    expected = pytorch_pcgrad(
        [[task[place] for place in kept] for task in by_task], torch.Generator().manual_seed(seed)
    )
    largest = max(gradient.abs().max() for gradient in expected)
    for place, wanted in zip(kept, expected, strict=True):
        assert (found[names[place]] - wanted).abs().max() <= 1e-6 * largest, names[place]
    assert told is not None and (told.weights > 1).any(), "there were conflicts"


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
def test_the_gramian_is_told_only_where_one_is_made(
    surgery: str | None, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, surgery=surgery)
    made, jacobian = conflicting(spec, sources)
    _, told = make_gradients(made, spec, torch.Generator())(STEP)
    if surgery is None:
        assert told is None
    else:
        assert told is not None
        torch.testing.assert_close(
            told.products.sum(0), jacobian @ jacobian.T, rtol=1e-4, atol=1e-4
        )


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
    found, _ = make_gradients(made, spec, torch.Generator())(STEP)
    noted = [(each.task, each.rows.tolist(), each.weight, each.loss.item()) for each in found]
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
    found, _ = make_gradients(made, mean, torch.Generator())(step)
    noted = [(each.task, each.weight, each.loss.item()) for each in found]
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
