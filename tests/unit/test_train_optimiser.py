"""AdamW: torch's own, also where an embedding's rows are brought up to date late."""

from __future__ import annotations

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

    def fit(self, optimiser: Any, steps: int) -> dict[str, Tensor]:
        """Train on few words often, on others with long gaps, on some never."""
        draw = torch.Generator().manual_seed(1)
        for step in range(steps):
            often = torch.randint(0, 5, (6,), generator=draw)
            tokens = torch.cat([often, torch.tensor([0 if step % 7 else 5 + (step // 7) % 25])])
            target = torch.randn(len(tokens), 1, generator=draw)
            optimiser.zero_grad()
            (self.linear(self.word(tokens)) - target).square().mean().backward()
            optimiser.step()
        return dict(self.named_parameters())


def trained(steps: int, schedule: str = "constant", **chosen: float) -> tuple[Model, AdamW]:
    """Return the model after some steps; some rows of its embedding are behind."""
    model, rates = Model(), load_part("schedule", schedule)(steps, 0.0)
    optimiser = AdamW(model.parameters(), Optimiser(lr=RATE, **chosen), rates, [model.word])
    model.fit(optimiser, steps)
    return model, optimiser


def torchs(steps: int, schedule: str, **chosen: float) -> dict[str, Tensor]:
    """Return the weights after the same steps of torch's AdamW."""
    model, rates = Model(), map(load_part("schedule", schedule)(steps, 0.0), range(steps))
    optimiser = torch.optim.AdamW(model.parameters(), **chosen)

    def set_rate(*_: Any) -> None:
        (group,) = optimiser.param_groups
        factor, beta1 = next(rates)
        group |= {"lr": RATE * factor, "betas": (0.9 if beta1 is None else beta1, 0.999)}

    optimiser.register_step_pre_hook(set_rate)
    return model.fit(optimiser, steps)


@pytest.mark.parametrize(
    ("steps", "schedule", "decay", "eps", "near"),
    [
        (50, "constant", 0.1, 1e-6, 1e-5),
        (50, "linear", 0.0, 1e-3, 1e-3),
        (50, "onecycle", 0.1, 1e-6, 1e-5),
        # Longer than a moment lasts; torch's own roundings come to as much.
        (700, "constant", 0.01, 1e-6, 1e-4),
    ],
)
def test_steps_are_torchs_however_long_rows_are_behind(
    steps: int, schedule: str, decay: float, eps: float, near: float
) -> None:
    chosen = {"weight_decay": decay, "eps": eps}
    model, optimiser = trained(steps, schedule, **chosen)
    expected = torchs(steps, schedule, **chosen)
    assert (model.word.weight - expected["word.weight"]).abs().max() > 3 * near
    optimiser.flush()
    torch.testing.assert_close(dict(model.named_parameters()), expected, rtol=0, atol=near)


def test_a_gradient_moves_its_own_weight_whatever_the_order_in_memory() -> None:
    """Surgery sets such gradients: a convolution's kernel is transposed for its product."""
    weight = nn.Parameter(torch.zeros(4, 5))
    weight.grad = torch.randn(5, 4).T
    AdamW([weight], Optimiser(lr=RATE), lambda _: Setting(1.0)).step()
    assert torch.equal(weight.detach().sign(), -weight.grad.sign())


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_lookup_in_training_and_a_flush_see_rows_up_to_date(decay: float) -> None:
    model, optimiser = trained(30, weight_decay=decay)
    never = Model().word.weight[-1] * (1 - RATE * decay) ** 30
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
    model.linear(torch.ones(2, WIDTH)).sum().backward()
    optimiser.step()
    optimiser.flush()
    assert torch.equal(model.word.weight, before)


def test_a_decay_below_what_fp32_holds_is_not_lost() -> None:
    """As in exact arithmetic, for dense weights and for rows looked up at each step or never."""
    each = 1 - 2e-5 * 1e-3
    assert torch.tensor(each, dtype=torch.float32) == 1
    word, linear = nn.Embedding(100, 64), nn.Linear(64, 64, bias=False)
    start = [weight.detach().double() for weight in (word.weight, linear.weight)]
    chosen = Optimiser(lr=2e-5, weight_decay=1e-3)
    optimiser = AdamW([word.weight, linear.weight], chosen, lambda _: Setting(1.0), [word])
    for _ in range(700):
        optimiser.zero_grad()
        linear(word(torch.arange(50))).mul(0).sum().backward()
        optimiser.step()
    optimiser.flush()
    for weight, before, due in zip(optimiser.parameters, start, optimiser.due, strict=True):
        assert 0 <= 1 - due < LEAST
        lost = 1 - weight.detach().double() / before
        for part in (lost[:50], lost[50:]):
            assert part.mean().item() == pytest.approx(1 - each**700 / due, rel=0.05)
