"""SMART: its perturbations, its penalty and gradient, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from model_batches import alone
from smart_libraries import kl_loss, library, on_padded_rows, sym_kl_loss
from stepping import (
    STEP,
    WEIGHTS,
    assert_same,
    backward,
    conflicting,
    generator,
    gradients,
    grads,
    is_shared,
    jacobian_of,
    shared_gradient,
    task_loss,
    tiny_model,
)
from torch import Tensor
from torchjd.aggregation import PCGrad

from minbert.model.encoder import compute_in
from minbert.spec.stage import Smart, StageSpec
from minbert.train.divergences.squared_error import squared_error
from minbert.train.divergences.symmetric_kl import symmetric_kl
from minbert.train.finetune import Finetuned
from minbert.train.smart import SmartPenalty, draws_put_back, perturbation
from minbert.train.step import Gradients

ROWS = torch.tensor([3, 0, 5])
ROW: dict[str, Any] = {"weight": 1, "normalise": "row"}
"""Algorithm 1 as published, but for its radius."""
STRONG = {"weight": 4.0, "noise": 0.1, "step": 0.1}
AS_SMART_PYTORCH = {"divergence": "detached_kl", "reduction": "sum"}
DIVERGENCES: dict[str, Any] = {"sst": symmetric_kl, "sts": squared_error}


class Penalised:
    """A model with its penalty, and what it makes of `rows` of a task."""

    def __init__(self, spec: StageSpec, sources: Any, seed: int = 0, task: str = "sst") -> None:
        self.smart, self.task = spec.smart, task
        self.model = tiny_model(spec, sources, seed)
        self.penalty = SmartPenalty(spec, self.model, seed=5)

    def __call__(self, rows: Tensor = ROWS, share: float = 1.0, measure: bool = False) -> Any:
        return self.penalty(self.task, rows, self.output(rows), share, measure)

    def output(self, rows: Tensor) -> Tensor:
        return self.model.forward([(self.task, rows)])[0][0]

    def padded(self, rows: Tensor) -> Any:
        """Return the model on padded rows, its noise there, real places; packed model, noise."""
        batch, _ = self.model.examples[self.task]["train"].batch(rows)
        packed = partial(alone, self.model.module, self.task, batch)
        start = self.smart.noise * torch.randn(len(batch.tokens), 32, generator=generator(5))
        return *on_padded_rows(packed, batch, start), packed, (start, batch.row_of, batch.rows)


def test_golden_move_by_token() -> None:
    gradient = torch.tensor([[1.0, -3.0], [0.0, 0.0]])
    noise, smart = torch.tensor([[0.1, -0.2], [0.3, 0.0]]), Smart(weight=1, step=0.1)
    # 0.1 + 0.1 * 1 = 0.2 and -0.2 - 0.1 * 3 = -0.5; the second token has no gradient.
    expected = torch.tensor([[0.2 / 0.500001, -0.5 / 0.500001], [0.3 / 0.300001, 0.0]])
    found = perturbation(
        lambda e: (e * gradient).sum(), noise, torch.zeros(2, dtype=torch.int64), 1, smart
    )
    torch.testing.assert_close(found, expected, atol=0, rtol=1e-6)


def test_where_nothing_moves_the_noise_stays_by_row() -> None:
    small = torch.full((2, 3), 1e-6)
    given = (small, torch.tensor([0, 1]), 2, Smart(**ROW, radius=1e-5))
    assert torch.equal(perturbation(lambda e: (e * 0).sum(), *given), small)


@pytest.fixture
def by_row(make_spec: Any) -> StageSpec:
    smart = {**ROW, "weight": 3.0, "noise": 0.1, "radius": 0.2, "step": 0.1, "ascents": 2}
    spec: StageSpec = make_spec(("sst", "sts"), still=True, smart=smart)
    return spec


@pytest.mark.parametrize("task", DIVERGENCES)
def test_the_penalty_is_the_divergence_at_the_perturbation_by_row(
    task: str, by_row: StageSpec, sources: Any
) -> None:
    made = Penalised(by_row, sources, task=task)
    value, measured = made()
    assert value > 0 and measured == {}
    assert all(g is None for g in grads(made.model).values()), "the ascent leaves gradients alone"
    *_, packed, (noise, row_of, _) = made.padded(ROWS)
    output, apart = made.output(ROWS), partial(DIVERGENCES[task], made.model.losses[task])
    for _ in range(2):
        noise.requires_grad_()
        (gradient,) = torch.autograd.grad(apart(packed(noise), output.detach()), noise)
        parts = gradient.split(row_of.bincount().tolist())
        largest = torch.cat([part.abs().max().expand(len(part)) for part in parts])
        noise = (noise.detach() + 0.1 * gradient / largest[:, None]).clamp(-0.2, 0.2)
    torch.testing.assert_close(value, 3.0 * apart(output, packed(noise)))


@pytest.mark.parametrize("task", DIVERGENCES)
@pytest.mark.parametrize(
    "chosen",
    [{}, {"noise": 0.1, "step": 50.0}, {"noise": 0.01, "step": 1.0, "ascents": 3}],
    ids=["defaults", "mostly gradient", "three ascents"],
)
def test_the_penalty_is_the_librarys_on_padded_rows(
    task: str, chosen: dict[str, Any], make_spec: Any, sources: Any
) -> None:
    spec = make_spec(("sst", "sts"), still=True, smart={"weight": 2.0, **chosen})
    made = Penalised(spec, sources, task=task)
    f, noise, real, packed, given = made.padded(ROWS)
    apart = partial(DIVERGENCES[task], made.model.losses[task])
    expected, moved = library(f, apart, noise, made.smart)
    value, _ = made()
    torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-5)
    assert value > 1e-3
    clean = packed().detach()
    found = perturbation(lambda e: apart(packed(e), clean), *given, made.smart)
    torch.testing.assert_close(found, moved[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("task", ["sst", "para", "sts"])
@pytest.mark.parametrize("chosen", [{}, {"noise": 0.1, "step": 50.0}], ids=["defaults", "far"])
def test_penalty_and_gradients_are_smart_pytorchs(
    chosen: dict[str, float], task: str, seed: int, make_spec: Any, sources: Any
) -> None:
    spec = make_spec((task,), still=True, smart={"weight": 5.0, **AS_SMART_PYTORCH, **chosen})
    made = Penalised(spec, sources, seed, task)
    rows = torch.randperm(10)[: 2 + seed]
    f, noise, *_ = made.padded(rows)
    expected, _ = library(f, kl_loss, noise, made.smart, last=sym_kl_loss)
    value, _ = made(rows)
    if task == "sst":
        assert value > 1e-2
        torch.testing.assert_close(value, expected, atol=0, rtol=1e-4)
    else:  # a softmax over one output is 1
        assert value == expected == 0
    theirs, ours = (backward(made.model, of) for of in (expected, value))
    largest = max(g.abs().max() for g in theirs.values() if g is not None)
    assert (largest == 0) == (task != "sst")
    assert_same(ours, theirs, rtol=0, atol=1e-4 * largest.item())


@pytest.mark.parametrize("chosen", [{}, AS_SMART_PYTORCH], ids=["mean", "sum"])
def test_parts_of_a_batch_add_up_to_its_penalty_and_ascend_its_divergence(
    chosen: dict[str, str], make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Penalised(make_spec(("sst",), still=True, smart={"weight": 2.0, **chosen}), sources)
    ascended: list[float] = []

    def moved(apart: Callable[[Tensor], Tensor], start: Tensor, *_: Any) -> Tensor:
        move = torch.full_like(start, 0.3)
        ascended.append(apart(move).item())
        return move

    monkeypatch.setattr("minbert.train.smart.perturbation", moved)
    found = []
    for rows in (ROWS, ROWS[:1], ROWS[1:]):
        share = len(rows) / len(ROWS)
        value, measured = made(rows, share, measure=True)
        assert torch.equal(measured["penalty"], value)
        weight = made.model.module.get_parameter("heads.sst.linears.0.weight")
        found.append((share * value.detach(), *torch.autograd.grad(share * value, weight)))
    whole, *parts = found
    for place in (0, 1):
        summed = parts[0][place] + parts[1][place]
        torch.testing.assert_close(whole[place], summed, rtol=1e-4, atol=1e-6)
    assert whole[0] > 1e-3
    assert ascended[0] == pytest.approx(ascended[1] + ascended[2], rel=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_is_measured_changes_no_draw_and_no_gradient(
    precision: str, make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(("sst", "sts"), smart={"weight": 2.0})
    found = []
    for measure in (False, True):
        made = Penalised(spec, sources)
        compute_in(made.model.module, precision)
        value, measured = made(measure=measure)
        assert set(measured) == ({"penalty", "unperturbed_penalty"} if measure else set())
        assert not any(each.requires_grad for each in measured.values())
        moved = {n: g for n, g in backward(made.model, value).items() if g is not None}
        assert "encoder.shared.layers.0.attention.output.weight" in moved
        draws = torch.get_rng_state(), made.penalty.generator.get_state()
        found.append((value, moved, *draws))
    torch.testing.assert_close(found[0], found[1], atol=0, rtol=0)
    # Both passes draw the same masks, so that without dropout they are one.
    still = Penalised(make_spec(("sst", "sts"), still=True, smart={"weight": 2.0}), sources)
    assert measured["unperturbed_penalty"] > 0 == still(measure=True)[1]["unperturbed_penalty"]
    # So it is on every device.
    asked: list[Any] = []

    def fork(devices: list[Any], device_type: str = "cuda") -> Any:
        asked.append((device_type, len(devices)))
        return nullcontext()

    monkeypatch.setattr(torch.random, "fork_rng", fork)
    for name in ("cuda", "mps"):
        draws_put_back(torch.device(name))
    assert asked == [("cuda", 1), ("mps", 1)]


def test_noise_is_added_to_the_embeddings_in_fp32(by_row: StageSpec, sources: Any) -> None:
    model = tiny_model(by_row, sources)
    batch, _ = model.examples["sst"]["train"].batch(ROWS)
    plain = alone(model.module, "sst", batch)
    one = torch.zeros(len(batch.tokens), 32)
    assert torch.equal(alone(model.module, "sst", batch, one), plain)
    one[int(batch.first[1])] = 1.0
    changed = (alone(model.module, "sst", batch, one) - plain).abs().sum(1) > 0
    assert changed.tolist() == [False, True, False], "noise on a row changes that row's output"
    # What is added is not rounded before: the sum is that of fp32, rounded once.
    embeddings = model.module.encoder.shared.embeddings
    small = torch.full((len(batch.tokens), 32), 1e-5)
    added = embeddings(batch, small) - embeddings(batch)
    torch.testing.assert_close(added, small, atol=1e-6, rtol=0)
    compute_in(model.module, "bf16")
    rounded: list[torch.dtype] = []
    embeddings.dropout.register_forward_pre_hook(lambda _, given: rounded.append(given[0].dtype))
    embeddings(batch, small)
    assert rounded == [torch.bfloat16]


def penalised_losses(spec: StageSpec, model: Finetuned) -> list[Tensor]:
    """Return the weighted losses of `STEP`, each with its penalty."""
    penalty, found = SmartPenalty(spec, model, 0), []
    for task, rows in STEP:
        added, _ = penalty(task, rows, model.forward([(task, rows)])[0][0])
        found.append(task_loss(model, spec, task, rows) + spec.tasks[task].weight * added)
    return found


@pytest.mark.parametrize("shared_layers", ["all", 1])
def test_a_step_has_the_gradient_of_losses_with_their_penalties(
    shared_layers: Any, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=shared_layers, smart=STRONG)
    model = tiny_model(spec, sources)
    losses = penalised_losses(spec, model)
    expected = backward(model, torch.stack(losses).sum())
    expected = {n: None if g is None else g.clone() for n, g in expected.items()}
    found = gradients(model, spec, STEP)
    assert_same(found, expected, rtol=1e-3, atol=1e-5)
    results, _ = Gradients(spec, model, 0, generator())(STEP)
    noted = [each.weight * each.loss.item() for each in results]
    assert noted == pytest.approx([loss.item() for loss in losses], rel=1e-4)
    without = gradients(model, spec.model_copy(update={"smart": None}), STEP)
    pairs = [(g, found[n]) for n, g in without.items() if g is not None]
    assert any(not torch.allclose(*pair, rtol=1e-2) for pair in pairs)


def test_surgery_is_on_the_gradients_of_losses_with_their_penalties(
    make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, surgery="pcgrad", smart=STRONG)
    model, _ = conflicting(spec, sources)
    jacobian = jacobian_of(model, penalised_losses(spec, model))
    own = backward(model, torch.stack(penalised_losses(spec, model)).sum())
    own = {n: None if g is None else g.clone() for n, g in own.items() if not is_shared(n)}
    model.module.zero_grad(set_to_none=True)
    _, surgery = Gradients(spec, model, 0, generator(3))(STEP)
    torch.testing.assert_close(surgery.products.sum(0), jacobian @ jacobian.T, rtol=1e-3, atol=1e-3)
    torch.manual_seed(3)
    expected = PCGrad()(jacobian)
    assert (shared_gradient(model) - expected).abs().max() <= 1e-3 * expected.abs().max()
    assert_same({n: g for n, g in grads(model).items() if n in own}, own, rtol=1e-3, atol=1e-5)


def test_noise_comes_from_a_separate_generator_and_bf16_losses_are_fp32_and_near(
    make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=STRONG)
    model, found = tiny_model(spec, sources), []
    for seed, precision in ((0, "fp32"), (0, "fp32"), (1, "fp32"), (0, "bf16")):
        compute_in(model.module, precision)
        torch.manual_seed(7)
        draw = generator(7)
        before = torch.get_rng_state(), draw.get_state()
        run = Gradients(spec, model, seed, draw)
        losses = [result.loss for _ in range(2) for result in run(STEP)[0]]
        assert all(loss.dtype == torch.float32 for loss in losses)
        found.append([loss.item() for loss in losses])
        assert torch.equal(torch.get_rng_state(), before[0])
        assert torch.equal(draw.get_state(), before[1])
    assert found[0] == found[1] != found[2]
    assert found[0][:3] != found[0][3:], "each step draws noise anew"
    assert found[3] == pytest.approx(found[0], rel=0.1)


def test_what_parts_measure_adds_up_to_the_batchs(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=STRONG)
    run = Gradients(spec, tiny_model(spec, sources), 0, generator(), 1.0)
    shares: list[float] = []

    def penalty(task: str, rows: Tensor, output: Tensor, share: float, measure: bool) -> Any:
        shares.append(share)
        value = rows.float().mean()
        return value, {"penalty": value} if measure else {}

    run.penalty = penalty
    assert all(result.measured == {} for result in run(STEP)[0])
    run.measure = True
    shares.clear()
    results, _ = run(STEP)
    assert shares == [1 / len(rows) for _, rows in STEP for _ in rows]
    for result, (_, rows) in zip(results, STEP, strict=True):
        assert result.measured["penalty"].item() == pytest.approx(rows.float().mean().item())


def test_recording_changes_no_bit_and_weight_nought_is_no_smart(
    make_spec: Any, run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(name: str, weight: float | None) -> tuple[list[Any], bytes]:
        smart = None if weight is None else {"weight": weight}
        spec = make_spec(("sst", "sts"), epochs=2, surgery="pcgrad", smart=smart)
        out = run(spec, 3, name)
        rows = pq.read_table(out / "history.parquet").drop_columns(["time"]).to_pylist()
        told = [row for row in rows if "penalty" in row["metric"]]
        return told, (out / "model.safetensors").read_bytes()

    without, (often, weights) = trained("without", None), trained("often", 5.0)
    assert trained("nought", 0.0)[1] == without[1] != weights
    monkeypatch.setattr("minbert.train.loop.POINTS", 1)
    seldom, same = trained("seldom", 5.0)
    assert same == weights
    # Six steps of two tasks, two metrics: of each step, and of the third and sixth.
    assert (len(often), len(seldom)) == (24, 8)
    assert {row["step"] for row in seldom} == {3, 6} and all(row in often for row in seldom)
