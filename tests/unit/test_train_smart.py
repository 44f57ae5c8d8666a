"""SMART: its perturbations, its penalty and gradient, and what it leaves alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from stepping import make_gradients
from torch import Tensor
from torch.nn import functional as F

from minbert.model.encoder import compute_in
from minbert.model.packed import Packed
from minbert.spec.parts import load_part
from minbert.spec.stage import Smart, StageSpec
from minbert.train.divergences.squared_error import squared_error
from minbert.train.divergences.symmetric_kl import symmetric_kl
from minbert.train.finetune import Finetuned
from minbert.train.losses.binary_cross_entropy import BinaryCrossEntropy
from minbert.train.losses.cosine_mse import CosineSquaredError
from minbert.train.losses.cross_entropy import CrossEntropy
from minbert.train.losses.mse import MeanSquaredError
from minbert.train.penalties.smart import SmartPenalty, by_token, draws_put_back, perturbation
from minbert.train.run import train_stage

CPU = torch.device("cpu")
ROWS = torch.tensor([3, 0, 5])


def test_golden_divergences() -> None:
    logit = torch.tensor([[math.log(3.0)], [0.0]])  # p = 3/4, 1/2
    other = torch.tensor([[0.0], [0.0]])
    by_hand = (0.75 - 0.5) * math.log(0.75 / 0.5) + (0.25 - 0.5) * math.log(0.25 / 0.5)
    found = symmetric_kl(BinaryCrossEntropy(), logit, other)
    assert found.item() == pytest.approx(by_hand / 2, rel=1e-5)
    values, others = torch.tensor([[2.0], [1.0]]), torch.tensor([[0.0], [4.0]])
    assert squared_error(MeanSquaredError(), values, others).item() == pytest.approx(6.5)
    cosines = torch.tensor([[0.5], [-1.0]]), torch.tensor([[0.1], [0.2]])
    assert squared_error(CosineSquaredError(), *cosines).item() == pytest.approx((4 + 1) / 2)


def test_symmetric_kl_is_both_ways_of_torchs() -> None:
    one, other = torch.randn(2, 6, 5).unbind()
    p, q = one.log_softmax(-1), other.log_softmax(-1)
    kl = partial(torch.nn.functional.kl_div, reduction="batchmean", log_target=True)
    found = symmetric_kl(CrossEntropy(), one, other)
    torch.testing.assert_close(found, kl(q, p) + kl(p, q))
    torch.testing.assert_close(found, symmetric_kl(CrossEntropy(), other, one))


@pytest.mark.parametrize("name", ["symmetric_kl", "squared_error", "detached_kl"])
def test_equal_outputs_do_not_diverge(name: str) -> None:
    output = torch.randn(4, 1)
    apart = load_part("divergence", name)(MeanSquaredError(), output, output.clone())
    assert apart.item() == 0.0


def away(weights: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a divergence whose gradient is known: 2 W^T W e, summed over tokens."""
    return lambda noise: (noise @ weights.T).square().sum()


ROW: dict[str, Any] = {"weight": 1, "normalise": "row"}
"""Algorithm 1 as published, but for its radius."""


def test_golden_move_by_token() -> None:
    noise = torch.tensor([[0.1, -0.2], [0.3, 0.0]])
    gradient = torch.tensor([[1.0, -3.0], [0.0, 0.0]])
    # 0.1 + 0.1 * 1 = 0.2 and -0.2 - 0.1 * 3 = -0.5; the second token has no gradient.
    expected = torch.tensor([[0.2 / 0.500001, -0.5 / 0.500001], [0.3 / 0.300001, 0.0]])
    torch.testing.assert_close(by_token(noise, gradient, 0.1), expected, atol=0, rtol=1e-6)


def test_each_tokens_move_has_a_largest_entry_of_one() -> None:
    start = 1e-5 * torch.randn(5, 64)
    row_of = torch.zeros(5, dtype=torch.int64)
    for ascents in (1, 3):
        smart = Smart(weight=1, ascents=ascents)
        found = perturbation(away(torch.randn(3, 64)), start, row_of, 1, smart)
        largest = found.abs().amax(1)
        assert (largest > 0.9).all() and (largest <= 1).all()
        assert not found.requires_grad


def test_the_move_by_token_goes_up_and_not_down() -> None:
    weights, start = torch.randn(3, 4), 1e-3 * torch.randn(5, 4)
    row_of = torch.zeros(5, dtype=torch.int64)
    still, up = (
        perturbation(away(weights), start, row_of, 1, Smart(weight=1, step=step))
        for step in (1e-12, 10.0)
    )
    # Both are as long: only their directions differ.
    assert away(weights)(up) > 1.1 * away(weights)(still)


def test_the_perturbation_by_row_is_that_of_the_formula() -> None:
    draw = torch.Generator().manual_seed(0)
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


def test_each_step_goes_up_and_no_entry_leaves_the_radius() -> None:
    weights = torch.randn(3, 4)
    start = 1e-3 * torch.randn(5, 4)
    row_of = torch.zeros(5, dtype=torch.int64)
    for ascents in (1, 3):
        smart = Smart(**ROW, step=0.01, radius=0.02, ascents=ascents)
        found = perturbation(away(weights), start, row_of, 1, smart)
        assert away(weights)(found) > away(weights)(start)
        assert found.abs().max() <= 0.02


def test_where_nothing_moves_the_noise_stays() -> None:
    start = torch.full((2, 3), 1e-6)
    row_of = torch.tensor([0, 1])
    found = perturbation(lambda e: (e * 0).sum(), start, row_of, 2, Smart(**ROW, radius=1e-5))
    assert torch.equal(found, start)


@pytest.fixture
def smart_spec(make_spec: Any) -> StageSpec:
    spec: StageSpec = make_spec(
        ("sst", "sts"),
        still=True,
        smart={**ROW, "weight": 3.0, "noise": 0.1, "radius": 0.2, "step": 0.1},
    )
    return spec


def penalty_of(spec: StageSpec, sources: Any, seed: int = 0) -> tuple[Finetuned, SmartPenalty]:
    torch.manual_seed(seed)
    made = Finetuned(spec, sources(*spec.tasks), CPU)
    made.module.train()
    losses = {name: load_part("loss", task.loss)() for name, task in spec.tasks.items()}
    return made, SmartPenalty(spec, made, losses, seed=5)


@pytest.mark.parametrize("task", ["sst", "sts"])
def test_the_penalty_is_the_divergence_at_the_perturbation_by_row(
    task: str, smart_spec: StageSpec, sources: Any
) -> None:
    made, penalty = penalty_of(smart_spec, sources)
    output, _ = made.output(task, ROWS)
    value, measured = penalty(task, ROWS, output)
    assert value > 0 and measured == {}
    assert all(p.grad is None for p in made.module.parameters()), (
        "the ascent leaves gradients alone"
    )

    batch, _ = made.examples[task]["train"].batch(ROWS)
    loss = penalty.losses[task]
    apart = symmetric_kl if task == "sst" else squared_error
    noise = 0.1 * torch.randn(
        (batch.tokens.shape[0], 32), generator=torch.Generator().manual_seed(5)
    )
    noise.requires_grad_()
    (gradient,) = torch.autograd.grad(
        apart(loss, made.module(task, batch, noise), output.detach()), noise
    )
    lengths = batch.lengths.tolist()
    largest = torch.cat([part.abs().max().expand(len(part)) for part in gradient.split(lengths)])
    moved = (noise.detach() + 0.1 * gradient / largest[:, None]).clamp(-0.2, 0.2)
    expected = 3.0 * apart(loss, output, made.module(task, batch, moved))
    torch.testing.assert_close(value, expected)


def library(
    f: Callable[[Tensor], Tensor],
    apart: Callable[[Tensor, Tensor], Tensor],
    noise: Tensor,
    smart: Smart,
    last: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return penalty and move as the authors' library has them; f takes a move [B, L, H].

    With `last`, that is the penalty's divergence, and `apart` that of the ascent alone.
    """
    clean = f(torch.zeros_like(noise))
    for _ in range(smart.ascents):
        noise = noise.detach().clone().requires_grad_()
        apart(f(noise), clean.detach()).backward(inputs=[noise])
        assert noise.grad is not None
        moved = noise + smart.step * noise.grad
        norm = torch.linalg.vector_norm(moved, ord=math.inf, dim=-1, keepdim=True)
        noise = (moved / (norm + 1e-6)).detach()
    return smart.weight * (last or apart)(f(noise), clean), noise


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
    made, penalty = penalty_of(spec, sources)
    batch, _ = made.examples[task]["train"].batch(ROWS)
    real = torch.arange(batch.longest) < batch.lengths[:, None]
    normal = torch.randn(len(batch.tokens), 32, generator=torch.Generator().manual_seed(5))
    noise = torch.zeros(*real.shape, 32)
    noise[real] = spec.smart.noise * normal
    apart = partial(symmetric_kl if task == "sst" else squared_error, penalty.losses[task])

    def f(move: Tensor) -> Tensor:
        return made.module(task, batch, move[real])

    expected, moved = library(f, apart, noise, spec.smart)
    value, _ = penalty(task, ROWS, made.output(task, ROWS)[0])
    torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-5)
    assert value > 1e-3
    clean = f(torch.zeros_like(noise)).detach()
    found = perturbation(
        lambda e: apart(made.module(task, batch, e), clean),
        noise[real],
        batch.row_of,
        batch.rows,
        spec.smart,
    )
    torch.testing.assert_close(found, moved[real], atol=1e-5, rtol=1e-5)


def kl_loss(output: Tensor, target: Tensor, reduction: str = "batchmean") -> Tensor:
    """Return KL(target || output) of softmaxes, as smart-pytorch has it."""
    return F.kl_div(output.log_softmax(-1), target.softmax(-1), reduction=reduction)


def sym_kl_loss(output: Tensor, target: Tensor) -> Tensor:
    return kl_loss(output, target.detach(), "sum") + kl_loss(target, output.detach(), "sum")


AS_SMART_PYTORCH = {"divergence": "detached_kl", "reduction": "sum"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("task", ["sst", "para", "sts"])
@pytest.mark.parametrize("chosen", [{}, {"noise": 0.1, "step": 50.0}], ids=["defaults", "far"])
def test_penalty_and_gradients_are_smart_pytorchs(
    chosen: dict[str, float], task: str, seed: int, make_spec: Any, sources: Any
) -> None:
    spec = make_spec((task,), still=True, smart={"weight": 5.0, **AS_SMART_PYTORCH, **chosen})
    made, penalty = penalty_of(spec, sources, seed)
    rows = torch.randperm(10)[: 2 + seed]
    batch, _ = made.examples[task]["train"].batch(rows)
    real = torch.arange(batch.longest) < batch.lengths[:, None]
    noise = torch.zeros(*real.shape, 32)
    draw = torch.Generator().manual_seed(5)
    noise[real] = spec.smart.noise * torch.randn(len(batch.tokens), 32, generator=draw)

    def f(move: Tensor) -> Tensor:
        return made.module(task, batch, move[real])

    expected, _ = library(f, kl_loss, noise, spec.smart, last=sym_kl_loss)
    value, _ = penalty(task, rows, made.output(task, rows)[0])
    names, parameters = zip(*made.module.named_parameters(), strict=True)
    one, other = (
        torch.autograd.grad(of, parameters, allow_unused=True) for of in (value, expected)
    )
    if task == "sst":
        assert value > 1e-2
        torch.testing.assert_close(value, expected, atol=0, rtol=1e-4)
    else:  # a softmax over one output is 1
        assert value == expected == 0
    largest = max(g.abs().max() for g in other if g is not None)
    assert (largest == 0) == (task != "sst")
    for name, ours, theirs in zip(names, one, other, strict=True):
        assert (ours is None) == (theirs is None), name
        if ours is not None:
            assert (ours - theirs).abs().max() <= 1e-4 * largest, name


@pytest.mark.parametrize("chosen", [{}, AS_SMART_PYTORCH], ids=["mean", "sum"])
def test_parts_of_a_batch_add_up_to_its_penalty(
    chosen: dict[str, str], make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    smart = {"weight": 2.0, **chosen}
    made, penalty = penalty_of(make_spec(("sst",), still=True, smart=smart), sources)
    monkeypatch.setattr(
        "minbert.train.penalties.smart.perturbation",
        lambda away, start, *_: torch.full_like(start, 0.3),
    )
    found = []
    for rows in (ROWS, ROWS[:1], ROWS[1:]):
        share = len(rows) / len(ROWS)
        value, measured = penalty("sst", rows, made.output("sst", rows)[0], share, measure=True)
        (gradient,) = torch.autograd.grad(
            share * value, made.module.heads["sst"].linears[-1].weight
        )
        assert torch.equal(measured["penalty"], value)
        found.append((share * value.detach(), gradient))
    whole, *parts = found
    for place in (0, 1):
        summed = parts[0][place] + parts[1][place]
        torch.testing.assert_close(whole[place], summed, rtol=1e-4, atol=1e-6)
    assert whole[0] > 1e-3


@pytest.mark.parametrize("still", [True, False], ids=["no dropout", "dropout"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_perturbation_changes_the_penalty_by_more_than_rounding(
    precision: str, still: bool, make_spec: Any, sources: Any
) -> None:
    changes = {}
    for name, smart in (("token", {"weight": 1}), ("row", {**ROW, "radius": 1e-5})):
        made, penalty = penalty_of(make_spec(("sst", "sts"), still=still, smart=smart), sources)
        compute_in(made.module, precision)
        output, _ = made.output("sst", ROWS)
        value, measured = penalty("sst", ROWS, output, measure=True)
        assert value.dtype == torch.float32
        assert torch.equal(measured["penalty"], value.detach())
        without = measured["unperturbed_penalty"]
        assert (without == 0) == still, "without dropout the two passes are one"
        changes[name] = abs(value.item() - without.item()) / max(without.item(), 1e-3)
    # bf16 has three digits: what is left of a radius of 1e-5 is rounding.
    assert changes["row"] < 0.02
    assert changes["token"] > 0.2


def test_noise_is_added_in_fp32(make_spec: Any, sources: Any) -> None:
    made, _ = penalty_of(make_spec(("sst", "sts"), still=True, smart={"weight": 1}), sources)
    embeddings = made.module.encoder.shared.embeddings
    batch, _ = made.examples["sst"]["train"].batch(ROWS)
    small = torch.full((len(batch.tokens), 32), 1e-5)
    compute_in(made.module, "bf16")
    rounded: list[torch.dtype] = []
    embeddings.dropout.register_forward_pre_hook(lambda _, given: rounded.append(given[0].dtype))
    embeddings(batch, small)
    assert rounded == [torch.bfloat16]
    # What is added is not rounded before: the sum is that of fp32, rounded once.
    compute_in(made.module, "fp32")
    moved = embeddings(batch, small) - embeddings(batch)
    torch.testing.assert_close(moved, small, atol=1e-6, rtol=0)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_is_measured_changes_no_draw_and_no_gradient(
    precision: str, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(("sst", "sts"), smart={"weight": 2.0})
    found = []
    for measure in (False, True):
        made, penalty = penalty_of(spec, sources)
        compute_in(made.module, precision)
        output, _ = made.output("sst", ROWS)
        value, measured = penalty("sst", ROWS, output, measure=measure)
        assert set(measured) == ({"penalty", "unperturbed_penalty"} if measure else set())
        assert not any(each.requires_grad for each in measured.values())
        value.backward()
        gradients = {n: p.grad for n, p in made.module.named_parameters() if p.grad is not None}
        assert "encoder.shared.layers.0.attention.output.weight" in gradients
        found.append((value, gradients, torch.get_rng_state(), penalty.generator.get_state()))
    torch.testing.assert_close(found[0], found[1], atol=0, rtol=0)


def test_both_measures_have_the_same_dropout_masks(make_spec: Any, sources: Any) -> None:
    # A move of almost nothing changes almost nothing; other masks would.
    spec = make_spec(("sst",), smart={**ROW, "weight": 2.0, "noise": 1e-9, "radius": 1e-9})
    made, penalty = penalty_of(spec, sources)
    output, _ = made.output("sst", ROWS)
    _, measured = penalty("sst", ROWS, output, measure=True)
    assert measured["penalty"] > 1e-4
    torch.testing.assert_close(
        measured["penalty"], measured["unperturbed_penalty"], rtol=1e-3, atol=0
    )


def test_parts_of_a_batch_ascend_its_mean_divergence(
    make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, penalty = penalty_of(make_spec(("sst",), still=True, smart={"weight": 2.0}), sources)
    found: list[float] = []

    def noted(away: Callable[[Tensor], Tensor], start: Tensor, *_: Any) -> Tensor:
        found.append(away(torch.full_like(start, 0.3)).item())
        return start

    monkeypatch.setattr("minbert.train.penalties.smart.perturbation", noted)
    for rows in (ROWS, ROWS[:1], ROWS[1:]):
        penalty("sst", rows, made.output("sst", rows)[0], share=len(rows) / len(ROWS))
    assert found[0] == pytest.approx(found[1] + found[2], rel=1e-4)


def test_noise_is_added_to_the_embeddings(smart_spec: StageSpec, sources: Any) -> None:
    made, _ = penalty_of(smart_spec, sources)
    batch, _ = made.examples["sst"]["train"].batch(ROWS)
    nothing = torch.zeros(batch.tokens.shape[0], 32)
    plain = made.module("sst", batch)
    assert torch.equal(made.module("sst", batch, nothing), plain)
    one = nothing.clone()
    one[int(batch.first[1])] = 1.0
    changed = (made.module("sst", batch, one) - plain).abs().sum(1) > 0
    assert changed.tolist() == [False, True, False], "noise on a row changes that row's output"


def test_the_penaltys_gradient_by_finite_differences(smart_spec: StageSpec, sources: Any) -> None:
    made, _ = penalty_of(smart_spec, sources)
    made.module.double()
    batch: Packed
    batch, _ = made.examples["sst"]["train"].batch(ROWS)
    noise = 0.1 * torch.randn(batch.tokens.shape[0], 32, dtype=torch.float64)
    parameter = made.module.encoder.shared.layers["0"].feed_forward.inner.weight  # type: ignore[union-attr]

    class Exact(CrossEntropy):
        def log_probabilities(self, output: Tensor) -> Tensor:
            return output.log_softmax(-1)

    def value() -> Tensor:
        output = made.module("sst", batch)
        return symmetric_kl(Exact(), output, made.module("sst", batch, noise))

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


def trained(spec: StageSpec, sources: Any, out: Path) -> tuple[list[Any], bytes]:
    out.mkdir()
    train_stage(spec, 3, sources(*spec.tasks), out, title="t", device="cpu", precision="fp32")
    import pyarrow.parquet as pq

    rows = pq.read_table(out / "history.parquet").drop_columns(["time"]).to_pylist()
    return rows, (out / "model.safetensors").read_bytes()


def test_recording_the_penalty_changes_no_bit(
    make_spec: Any, sources: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(("sst", "sts"), epochs=2, surgery="pcgrad", smart={"weight": 5.0})
    often, weights = trained(spec, sources, tmp_path / "often")
    monkeypatch.setattr("minbert.train.loop.POINTS", 1)
    seldom, same = trained(spec, sources, tmp_path / "seldom")
    assert same == weights
    told = [[row for row in rows if "penalty" in row["metric"]] for rows in (often, seldom)]
    # Six steps of two tasks, two metrics: of each step, and of the third and sixth.
    assert (len(told[0]), len(told[1])) == (24, 8)
    assert {row["step"] for row in told[1]} == {3, 6}
    assert all(row in told[0] for row in told[1])


def test_weight_nought_is_no_smart_to_the_bit(make_spec: Any, sources: Any, tmp_path: Path) -> None:
    without = trained(make_spec(("sst", "sts"), surgery="pcgrad"), sources, tmp_path / "a")
    nought = make_spec(("sst", "sts"), surgery="pcgrad", smart={"weight": 0.0})
    assert trained(nought, sources, tmp_path / "b") == without
    some = make_spec(("sst", "sts"), surgery="pcgrad", smart={"weight": 5.0})
    assert trained(some, sources, tmp_path / "c") != without


def test_a_tasks_loss_holds_its_penalty(smart_spec: StageSpec, sources: Any) -> None:
    noted: dict[bool, float] = {}
    for with_smart in (True, False):
        spec = smart_spec if with_smart else smart_spec.model_copy(update={"smart": None})
        torch.manual_seed(0)
        made = Finetuned(spec, sources(*spec.tasks), CPU)
        made.module.train()
        (batch,), _ = make_gradients(made, spec, torch.Generator(), seed=5)([("sst", ROWS)])
        noted[with_smart] = batch.loss.item()
    _, penalty = penalty_of(smart_spec, sources)
    output, _ = penalty.learner.output("sst", ROWS)
    added, _ = penalty("sst", ROWS, output)
    assert noted[True] - noted[False] == pytest.approx(added.item(), rel=1e-4)


def test_the_mean_of_tasks_is_the_sum_divided(make_spec: Any, sources: Any) -> None:
    step = [("sst", ROWS), ("sts", ROWS)]
    found = []
    for reduction, surgery in (
        ("sum", None),
        ("mean", None),
        ("sum", "pcgrad"),
        ("mean", "pcgrad"),
    ):
        spec = make_spec(("sst", "sts"), still=True, reduction=reduction, surgery=surgery)
        torch.manual_seed(0)
        made = Finetuned(spec, sources(*spec.tasks), CPU)
        make_gradients(made, spec, torch.Generator())(step)
        found.append({n: p.grad for n, p in made.module.named_parameters() if p.grad is not None})
    for whole, mean in (found[:2], found[2:]):
        assert whole.keys() == mean.keys()
        for name, gradient in whole.items():
            torch.testing.assert_close(mean[name], gradient / 2, atol=1e-7, rtol=1e-4)


def test_surgery_refuses_a_task_that_comes_twice(make_spec: Any, sources: Any) -> None:
    spec = make_spec(("sst", "sts"), surgery="pcgrad")
    made = Finetuned(spec, sources(*spec.tasks), CPU)
    run = make_gradients(made, spec, torch.Generator())
    with pytest.raises(ValueError, match="'sst' is there twice"):
        run([("sst", ROWS), ("sst", ROWS)])


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
