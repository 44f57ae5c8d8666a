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
from minbert.train.losses.cross_entropy import CrossEntropy
from minbert.train.smart import SmartPenalty, by_token, draws_put_back, perturbation
from minbert.train.step import Gradients

ROWS = torch.tensor([3, 0, 5])
ROW: dict[str, Any] = {"weight": 1, "normalise": "row"}
"""Algorithm 1 as published, but for its radius."""
STRONG = {"weight": 4.0, "noise": 0.1, "step": 0.1}
AS_SMART_PYTORCH = {"divergence": "detached_kl", "reduction": "sum"}
ONE_ROW = torch.zeros(5, dtype=torch.int64)


def away(weights: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a divergence whose gradient is known: 2 W^T W e, summed over tokens."""
    return lambda noise: (noise @ weights.T).square().sum()


def penalty_of(spec: StageSpec, sources: Any, seed: int = 0) -> tuple[Finetuned, SmartPenalty]:
    model = tiny_model(spec, sources, seed)
    return model, SmartPenalty(spec, model, seed=5)


def noise_of(spec: StageSpec, tokens: int) -> Tensor:
    """Return the noise [T, H] that `penalty_of` draws first."""
    assert spec.smart is not None
    return spec.smart.noise * torch.randn(tokens, 32, generator=generator(5))


def test_golden_move_by_token() -> None:
    noise = torch.tensor([[0.1, -0.2], [0.3, 0.0]])
    gradient = torch.tensor([[1.0, -3.0], [0.0, 0.0]])
    # 0.1 + 0.1 * 1 = 0.2 and -0.2 - 0.1 * 3 = -0.5; the second token has no gradient.
    expected = torch.tensor([[0.2 / 0.500001, -0.5 / 0.500001], [0.3 / 0.300001, 0.0]])
    torch.testing.assert_close(by_token(noise, gradient, 0.1), expected, atol=0, rtol=1e-6)


@pytest.mark.parametrize("ascents", [1, 3])
def test_a_move_by_token_goes_up_and_its_largest_entry_is_one(ascents: int) -> None:
    weights, start = torch.randn(3, 4), 1e-3 * torch.randn(5, 4)
    still, up = (
        perturbation(away(weights), start, ONE_ROW, 1, Smart(weight=1, step=step, ascents=ascents))
        for step in (1e-12, 10.0)
    )
    for move in (still, up):
        largest = move.abs().amax(1)
        assert (largest > 0.9).all() and (largest <= 1).all()
        assert not move.requires_grad
    # Both are as long: only their directions differ.
    assert away(weights)(up) > 1.1 * away(weights)(still)


def test_the_perturbation_by_row_is_that_of_the_formula() -> None:
    draw = generator()
    weights = torch.randn(3, 4, generator=draw, dtype=torch.float64)
    start = torch.randn(5, 4, generator=draw, dtype=torch.float64)
    row_of = torch.tensor([0, 0, 1, 1, 1])
    smart = Smart(**ROW, step=0.3, radius=0.9, ascents=2)
    expected = start.clone()
    for _ in range(2):
        gradient = 2 * expected @ weights.T @ weights
        for row in (slice(0, 2), slice(2, 5)):
            expected[row] += 0.3 * gradient[row] / gradient[row].abs().max()
        expected = expected.clamp(-0.9, 0.9)
    found = perturbation(away(weights), start, row_of, 2, smart)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    assert not found.requires_grad


def test_where_nothing_moves_the_noise_stays() -> None:
    start = torch.full((2, 3), 1e-6)
    row_of = torch.tensor([0, 1])
    found = perturbation(lambda e: (e * 0).sum(), start, row_of, 2, Smart(**ROW, radius=1e-5))
    assert torch.equal(found, start)


@pytest.fixture
def by_row(make_spec: Any) -> StageSpec:
    smart = {**ROW, "weight": 3.0, "noise": 0.1, "radius": 0.2, "step": 0.1}
    spec: StageSpec = make_spec(("sst", "sts"), still=True, smart=smart)
    return spec


@pytest.mark.parametrize("task", ["sst", "sts"])
def test_the_penalty_is_the_divergence_at_the_perturbation_by_row(
    task: str, by_row: StageSpec, sources: Any
) -> None:
    model, penalty = penalty_of(by_row, sources)
    output, _ = model.output(task, ROWS)
    value, measured = penalty(task, ROWS, output)
    assert value > 0 and measured == {}
    assert all(g is None for g in grads(model).values()), "the ascent leaves gradients alone"
    batch, _ = model.examples[task]["train"].batch(ROWS)
    apart = partial(symmetric_kl if task == "sst" else squared_error, model.losses[task])
    noise = noise_of(by_row, len(batch.tokens)).requires_grad_()
    ascended = apart(model.module(task, batch, noise), output.detach())
    (gradient,) = torch.autograd.grad(ascended, noise)
    parts = gradient.split(batch.lengths.tolist())
    largest = torch.cat([part.abs().max().expand(len(part)) for part in parts])
    moved = (noise.detach() + 0.1 * gradient / largest[:, None]).clamp(-0.2, 0.2)
    torch.testing.assert_close(value, 3.0 * apart(output, model.module(task, batch, moved)))


@pytest.mark.parametrize("task", ["sst", "sts"])
@pytest.mark.parametrize(
    "chosen",
    [{}, {"noise": 0.1, "step": 50.0}, {"noise": 0.01, "step": 1.0, "ascents": 3}],
    ids=["defaults", "mostly gradient", "three ascents"],
)
def test_the_penalty_is_the_librarys_on_padded_rows(
    task: str, chosen: dict[str, Any], make_spec: Any, sources: Any
) -> None:
    spec = make_spec(("sst", "sts"), still=True, smart={"weight": 2.0, **chosen})
    model, penalty = penalty_of(spec, sources)
    batch, _ = model.examples[task]["train"].batch(ROWS)
    packed = partial(model.module, task, batch)
    start = noise_of(spec, len(batch.tokens))
    f, noise, real = on_padded_rows(packed, batch, start)
    apart = partial(symmetric_kl if task == "sst" else squared_error, model.losses[task])
    expected, moved = library(f, apart, noise, spec.smart)
    value, _ = penalty(task, ROWS, model.output(task, ROWS)[0])
    torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-5)
    assert value > 1e-3
    clean = packed().detach()
    given = (start, batch.row_of, batch.rows, spec.smart)
    found = perturbation(lambda e: apart(packed(e), clean), *given)
    torch.testing.assert_close(found, moved[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("task", ["sst", "para", "sts"])
@pytest.mark.parametrize("chosen", [{}, {"noise": 0.1, "step": 50.0}], ids=["defaults", "far"])
def test_penalty_and_gradients_are_smart_pytorchs(
    chosen: dict[str, float], task: str, seed: int, make_spec: Any, sources: Any
) -> None:
    spec = make_spec((task,), still=True, smart={"weight": 5.0, **AS_SMART_PYTORCH, **chosen})
    model, penalty = penalty_of(spec, sources, seed)
    rows = torch.randperm(10)[: 2 + seed]
    batch, _ = model.examples[task]["train"].batch(rows)
    start = noise_of(spec, len(batch.tokens))
    f, noise, _ = on_padded_rows(partial(model.module, task, batch), batch, start)
    expected, _ = library(f, kl_loss, noise, spec.smart, last=sym_kl_loss)
    value, _ = penalty(task, rows, model.output(task, rows)[0])
    if task == "sst":
        assert value > 1e-2
        torch.testing.assert_close(value, expected, atol=0, rtol=1e-4)
    else:  # a softmax over one output is 1
        assert value == expected == 0
    theirs, ours = (backward(model, of) for of in (expected, value))
    largest = max(g.abs().max() for g in theirs.values() if g is not None)
    assert (largest == 0) == (task != "sst")
    assert_same(ours, theirs, rtol=0, atol=1e-4 * largest.item())


@pytest.mark.parametrize("chosen", [{}, AS_SMART_PYTORCH], ids=["mean", "sum"])
def test_parts_of_a_batch_add_up_to_its_penalty_and_ascend_its_divergence(
    chosen: dict[str, str], make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    smart = {"weight": 2.0, **chosen}
    model, penalty = penalty_of(make_spec(("sst",), still=True, smart=smart), sources)
    ascended: list[float] = []

    def moved(apart: Callable[[Tensor], Tensor], start: Tensor, *_: Any) -> Tensor:
        move = torch.full_like(start, 0.3)
        ascended.append(apart(move).item())
        return move

    monkeypatch.setattr("minbert.train.smart.perturbation", moved)
    found = []
    for rows in (ROWS, ROWS[:1], ROWS[1:]):
        share = len(rows) / len(ROWS)
        value, measured = penalty("sst", rows, model.output("sst", rows)[0], share, measure=True)
        assert torch.equal(measured["penalty"], value)
        weight = model.module.get_parameter("heads.sst.linears.0.weight")
        found.append((share * value.detach(), *torch.autograd.grad(share * value, weight)))
    whole, *parts = found
    for place in (0, 1):
        summed = parts[0][place] + parts[1][place]
        torch.testing.assert_close(whole[place], summed, rtol=1e-4, atol=1e-6)
    assert whole[0] > 1e-3
    assert ascended[0] == pytest.approx(ascended[1] + ascended[2], rel=1e-4)


@pytest.mark.parametrize("still", [True, False], ids=["no dropout", "dropout"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_perturbation_changes_the_penalty_by_more_than_rounding(
    precision: str, still: bool, make_spec: Any, sources: Any
) -> None:
    changes = {}
    for name, smart in (("token", {"weight": 1}), ("row", {**ROW, "radius": 1e-5})):
        model, penalty = penalty_of(make_spec(("sst", "sts"), still=still, smart=smart), sources)
        compute_in(model.module, precision)
        value, measured = penalty("sst", ROWS, model.output("sst", ROWS)[0], measure=True)
        assert value.dtype == torch.float32
        without = measured["unperturbed_penalty"]
        assert (without == 0) == still, "without dropout the two passes are one"
        changes[name] = abs(value.item() - without.item()) / max(without.item(), 1e-3)
    # The same dropout masks are in both measures; bf16 has three digits, so that what is left of a
    # radius of 1e-5 is rounding.
    assert changes["row"] < 0.02
    assert changes["token"] > 0.2


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_is_measured_changes_no_draw_and_no_gradient(
    precision: str, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(("sst", "sts"), smart={"weight": 2.0})
    found = []
    for measure in (False, True):
        model, penalty = penalty_of(spec, sources)
        compute_in(model.module, precision)
        value, measured = penalty("sst", ROWS, model.output("sst", ROWS)[0], measure=measure)
        assert set(measured) == ({"penalty", "unperturbed_penalty"} if measure else set())
        assert not any(each.requires_grad for each in measured.values())
        moved = {n: g for n, g in backward(model, value).items() if g is not None}
        assert "encoder.shared.layers.0.attention.output.weight" in moved
        found.append((value, moved, torch.get_rng_state(), penalty.generator.get_state()))
    torch.testing.assert_close(found[0], found[1], atol=0, rtol=0)


def test_what_is_only_measured_puts_its_draws_back_on_every_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
    plain = model.module("sst", batch)
    one = torch.zeros(len(batch.tokens), 32)
    assert torch.equal(model.module("sst", batch, one), plain)
    one[int(batch.first[1])] = 1.0
    changed = (model.module("sst", batch, one) - plain).abs().sum(1) > 0
    assert changed.tolist() == [False, True, False], "noise on a row changes that row's output"
    # What is added is not rounded before: the sum is that of fp32, rounded once.
    embeddings = model.module.encoder.shared.embeddings
    small = torch.full((len(batch.tokens), 32), 1e-5)
    torch.testing.assert_close(
        embeddings(batch, small) - embeddings(batch), small, atol=1e-6, rtol=0
    )
    compute_in(model.module, "bf16")
    rounded: list[torch.dtype] = []
    embeddings.dropout.register_forward_pre_hook(lambda _, given: rounded.append(given[0].dtype))
    embeddings(batch, small)
    assert rounded == [torch.bfloat16]


def test_the_penaltys_gradient_by_finite_differences(by_row: StageSpec, sources: Any) -> None:
    model = tiny_model(by_row, sources)
    model.module.double()
    batch, _ = model.examples["sst"]["train"].batch(ROWS)
    noise = 0.1 * torch.randn(len(batch.tokens), 32, dtype=torch.float64)
    parameter = model.module.get_parameter("encoder.shared.layers.0.feed_forward.inner.weight")

    def value() -> Tensor:
        outputs = model.module("sst", batch), model.module("sst", batch, noise)
        return symmetric_kl(CrossEntropy(), *outputs)

    (gradient,) = torch.autograd.grad(value(), parameter)
    direction = torch.randn_like(parameter)
    with torch.no_grad():
        ends = []
        for sign in (1, -1):
            parameter.add_(direction, alpha=sign * 1e-5)
            ends.append(value().item())
            parameter.add_(direction, alpha=-sign * 1e-5)
    slope = (ends[0] - ends[1]) / 2e-5
    assert slope == pytest.approx((gradient * direction).sum().item(), rel=1e-4)


def test_the_penalty_pulls_at_the_clean_output_too(make_spec: Any, sources: Any) -> None:
    model, penalty = penalty_of(make_spec(WEIGHTS, still=True, smart=STRONG), sources)
    output, _ = model.output("sts", STEP[2][1])
    value, _ = penalty("sts", STEP[2][1], output)
    (slope,) = torch.autograd.grad(value, output)
    # value = weight * mean of (moved - output)^2, so its slope's squares tell the value.
    assert value > 0
    weight, n = STRONG["weight"], len(STEP[2][1])
    told = (slope * n / (2 * weight)).square().mean() * weight
    assert told == pytest.approx(value.item(), rel=1e-4)


def penalised(spec: StageSpec, model: Finetuned) -> list[Tensor]:
    """Return the weighted losses of `STEP`, each with its penalty."""
    penalty, found = SmartPenalty(spec, model, 0), []
    for task, rows in STEP:
        added, _ = penalty(task, rows, model.output(task, rows)[0])
        found.append(task_loss(model, spec, task, rows) + spec.tasks[task].weight * added)
    return found


@pytest.mark.parametrize("shared_layers", ["all", 1])
def test_a_step_has_the_gradient_of_losses_with_their_penalties(
    shared_layers: Any, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(WEIGHTS, still=True, shared_layers=shared_layers, smart=STRONG)
    model = tiny_model(spec, sources)
    losses = penalised(spec, model)
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
    jacobian = jacobian_of(model, penalised(spec, model))
    own = backward(model, torch.stack(penalised(spec, model)).sum())
    own = {n: None if g is None else g.clone() for n, g in own.items() if not is_shared(n)}
    model.module.zero_grad(set_to_none=True)
    _, surgery = Gradients(spec, model, 0, generator(3))(STEP)
    assert surgery is not None
    torch.testing.assert_close(surgery.products.sum(0), jacobian @ jacobian.T, rtol=1e-3, atol=1e-3)
    torch.manual_seed(3)
    expected = PCGrad()(jacobian)
    assert (shared_gradient(model) - expected).abs().max() <= 1e-3 * expected.abs().max()
    assert_same({n: g for n, g in grads(model).items() if n in own}, own, rtol=1e-3, atol=1e-5)


def test_noise_comes_from_a_separate_generator(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=STRONG)
    model = tiny_model(spec, sources)
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(7)
        draw = generator(7)
        before = torch.get_rng_state(), draw.get_state()
        run = Gradients(spec, model, seed, draw)
        found.append([result.loss.item() for _ in range(2) for result in run(STEP)[0]])
        assert torch.equal(torch.get_rng_state(), before[0])
        assert torch.equal(draw.get_state(), before[1])
    assert found[0] == found[1] != found[2]
    assert found[0][:3] != found[0][3:], "each step draws noise anew"


def test_in_bf16_losses_are_fp32_and_near(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=STRONG)
    model = tiny_model(spec, sources)
    values: dict[str, list[float]] = {}
    for precision in ("fp32", "bf16"):
        compute_in(model.module, precision)
        losses = [result.loss for result in Gradients(spec, model, 0, generator())(STEP)[0]]
        assert all(loss.dtype == torch.float32 for loss in losses)
        values[precision] = [loss.item() for loss in losses]
    assert values["bf16"] == pytest.approx(values["fp32"], rel=0.1)


def test_what_parts_measure_adds_up_to_the_batchs(make_spec: Any, sources: Any) -> None:
    spec = make_spec(WEIGHTS, still=True, smart=STRONG)
    run = Gradients(spec, tiny_model(spec, sources), 0, generator(), 1.0)
    shares: list[float] = []

    def penalty(
        task: str, rows: Tensor, output: Tensor, share: float, measure: bool
    ) -> tuple[Tensor, dict[str, Tensor]]:
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
        return rows, (out / "model.safetensors").read_bytes()

    without, (often, weights) = trained("without", None), trained("often", 5.0)
    assert trained("nought", 0.0)[1] == without[1] != weights
    monkeypatch.setattr("minbert.train.loop.POINTS", 1)
    seldom, same = trained("seldom", 5.0)
    assert same == weights
    told = [[row for row in rows if "penalty" in row["metric"]] for rows in (often, seldom)]
    # Six steps of two tasks, two metrics: of each step, and of the third and sixth.
    assert (len(told[0]), len(told[1])) == (24, 8)
    assert {row["step"] for row in told[1]} == {3, 6}
    assert all(row in told[0] for row in told[1])
