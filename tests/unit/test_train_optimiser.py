"""AdamW: torch's own, also where an embedding's rows are brought up to date late."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from minbert.spec.parts import load_part
from minbert.spec.stage import Optimiser
from minbert.train.optimiser import LEAST, AdamW
from minbert.train.schedules import Setting

WORDS, WIDTH = 40, 6
RATE = 1e-2


class Model(nn.Module):
    """An embedding, of which the last words are never looked up, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.word = nn.Embedding(WORDS, WIDTH)
        self.linear = nn.Linear(WIDTH, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        output: Tensor = self.linear(self.word(tokens))
        return output


def fit(model: Model, optimiser: Any, steps: int) -> None:
    """Train on few words often, on others with long gaps, on some never."""
    draw = torch.Generator().manual_seed(1)
    for step in range(steps):
        often = torch.randint(0, 5, (6,), generator=draw)
        seldom = torch.tensor([5 + (step // 7) % 25] if step % 7 == 0 else [0])
        tokens = torch.cat([often, seldom])
        target = torch.randn(len(tokens), 1, generator=draw)
        optimiser.zero_grad()
        (model(tokens) - target).square().mean().backward()
        optimiser.step()


def train(chosen: Optimiser, steps: int, schedule: str = "constant") -> tuple[Model, AdamW]:
    """Return the model after some steps; some rows of its embedding are behind."""
    model, rates = Model(), load_part("schedule", schedule)(steps, 0.0)
    optimiser = AdamW(model.parameters(), chosen, rates, [model.word])
    fit(model, optimiser, steps)
    return model, optimiser


def torchs(chosen: Optimiser, steps: int, schedule: str = "constant") -> dict[str, Tensor]:
    """Return the weights after the same steps of torch's AdamW."""
    model, rates = Model(), map(load_part("schedule", schedule)(steps, 0.0), range(steps))
    more = {"eps": chosen.eps, "weight_decay": chosen.weight_decay}
    optimiser = torch.optim.AdamW(model.parameters(), lr=chosen.lr, **more)

    def set_rate(*_: Any) -> None:
        (group,) = optimiser.param_groups
        factor, beta1 = next(rates)
        group["lr"] = chosen.lr * factor
        group["betas"] = (chosen.betas[0] if beta1 is None else beta1, chosen.betas[1])

    optimiser.register_step_pre_hook(set_rate)
    fit(model, optimiser, steps)
    return dict(model.named_parameters())


@pytest.mark.parametrize("schedule", ["constant", "linear", "onecycle"])
@pytest.mark.parametrize(("decay", "eps"), [(0.0, 1e-6), (0.1, 1e-6), (0.0, 1e-3)])
def test_fifty_steps_are_torchs(schedule: str, decay: float, eps: float) -> None:
    chosen = Optimiser(lr=RATE, weight_decay=decay, eps=eps)
    model, optimiser = train(chosen, 50, schedule)
    optimiser.flush()
    found, near = dict(model.named_parameters()), max(1e-5, eps)
    torch.testing.assert_close(found, torchs(chosen, 50, schedule), rtol=0, atol=near)


def test_a_gradient_moves_its_own_weight_whatever_the_order_in_memory() -> None:
    """Surgery sets such gradients: a convolution's kernel is transposed for its product."""
    weight = nn.Parameter(torch.zeros(4, 5))
    weight.grad = torch.randn(5, 4).T
    AdamW([weight], Optimiser(lr=RATE), lambda _: Setting(1.0)).step()
    assert torch.equal(weight.detach().sign(), -weight.grad.sign())


def test_long_gaps_are_made_up_for() -> None:
    chosen = Optimiser(lr=RATE, weight_decay=0.01)
    model, optimiser = train(chosen, 1200)
    expected = torchs(chosen, 1200)["word.weight"]
    behind = (model.word.weight - expected).abs().max()
    optimiser.flush()
    late = (model.word.weight - expected).abs().max()
    assert behind > 100 * late
    assert late < 1e-4  # torch's own 1,200 roundings come to as much


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_lookup_in_training_and_a_flush_see_rows_up_to_date(decay: float) -> None:
    model, optimiser = train(Optimiser(lr=RATE, weight_decay=decay), 30)
    never = Model().word.weight[-1] * math.pow(1 - RATE * decay, 30)
    seen = model.word(torch.arange(WORDS)).detach().clone()
    torch.testing.assert_close(seen[-1], never, rtol=1e-6, atol=0)
    for _ in range(2):
        optimiser.flush()
        assert torch.equal(model.word.weight, seen)


def test_a_parameter_without_gradient_is_neither_moved_nor_decayed() -> None:
    model = Model()
    before = model.word.weight.detach().clone()
    chosen = Optimiser(lr=RATE, weight_decay=0.1)
    optimiser = AdamW(model.parameters(), chosen, lambda _: Setting(1.0), [model.word])
    for _ in range(3):
        optimiser.zero_grad()
        model.linear(torch.ones(2, WIDTH)).sum().backward()
        optimiser.step()
    optimiser.flush()
    assert torch.equal(model.word.weight, before)


@pytest.mark.parametrize("decay", [1e-4, 1e-3])
def test_a_decay_below_what_fp32_holds_is_not_lost(decay: float) -> None:
    """As in exact arithmetic, for dense weights and for rows looked up at each step or never."""
    torch.manual_seed(0)
    word, linear = nn.Embedding(100, 64), nn.Linear(64, 64, bias=False)
    parameters = [word.weight, linear.weight]
    start = [weight.detach().double() for weight in parameters]
    chosen = Optimiser(lr=1e-5, weight_decay=decay)
    optimiser = AdamW(parameters, chosen, lambda _: Setting(1.0), [word])
    for _ in range(2000):
        optimiser.zero_grad()
        linear(word(torch.arange(50))).mul(0).sum().backward()
        optimiser.step()
    optimiser.flush()
    for weight, before, due in zip(parameters, start, optimiser.due, strict=True):
        assert 0 <= 1 - due < LEAST
        expected = 1 - (1 - chosen.lr * decay) ** 2000 / due
        lost = 1 - (weight.detach().double() / before)
        for part in (lost[:50], lost[50:]):
            assert part.mean().item() == pytest.approx(expected, rel=0.05)
    assert torch.tensor(1 - chosen.lr * decay, dtype=torch.float32) == 1, "why it is gathered"
