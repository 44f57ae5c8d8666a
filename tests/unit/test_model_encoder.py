"""An encoder's dropout and its initial weights; layers in bf16 beside weights in fp32."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from model_batches import STILL, TINY, random_batch
from torch import Tensor, nn

from minbert.model.encoder import compute_in, initialise, whole_encoder
from minbert.model.layers import Dropout, Linear, dropout_mask, kept_share


@pytest.mark.parametrize("rate", ["embedding", "sublayer", "attention"])
def test_each_dropout_draws_in_training_alone(rate: str) -> None:
    encoder, batch = whole_encoder(TINY, STILL.model_copy(update={rate: 0.5})), random_batch()
    initialise(encoder, torch.Generator().manual_seed(0))
    torch.manual_seed(1)
    first = encoder(batch)
    assert not torch.equal(encoder(batch), first)
    torch.manual_seed(1)
    assert torch.equal(first, encoder(batch))
    encoder.eval()
    assert torch.equal(encoder(batch), encoder(batch))


def test_initial_weights_are_berts() -> None:
    encoder = whole_encoder(TINY.model_copy(update={"vocab_size": 5000}), STILL)
    initialise(encoder)
    for name, parameter in encoder.named_parameters():
        if name.endswith("bias") or "norm" in name:
            assert (parameter == (0 if name.endswith("bias") else 1)).all(), name
    words = encoder.get_parameter("embeddings.word.weight")
    assert float(words.detach().std()) == pytest.approx(0.02, rel=0.02)


@pytest.mark.parametrize("p", [0.1, 0.5, 1 - 1e-9])
def test_entries_are_lost_with_the_probability_and_the_mean_is_kept(p: float) -> None:
    torch.manual_seed(0)
    factors = dropout_mask(torch.Size((500, 1001)), p)
    lost = (factors == 0).double().mean().item()
    assert lost == pytest.approx(p, abs=4 * (p * (1 - p) / factors.numel()) ** 0.5 + 2e-5)
    assert set(factors.unique().tolist()) <= {0.0, 1.0}
    assert kept_share(p) == pytest.approx(1 - p, abs=2e-5)


def test_every_place_of_a_drawn_word_is_used_alike_and_draws_follow_torchs_generator() -> None:
    torch.manual_seed(1)
    mask = dropout_mask(torch.Size((200_000,)), 0.25)
    lost = (mask == 0).view(-1, 4).double()
    assert lost.mean(0).tolist() == pytest.approx([0.25] * 4, abs=0.01)
    together = (lost.T @ lost) / len(lost) - 0.25**2
    assert together.fill_diagonal_(0.0).abs().max() < 0.005
    assert not torch.equal(dropout_mask(mask.shape, 0.25), mask)
    torch.manual_seed(1)
    assert torch.equal(dropout_mask(mask.shape, 0.25), mask)


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-4), (torch.bfloat16, 0.02)])
def test_what_is_left_is_scaled_and_added(dtype: torch.dtype, within: float) -> None:
    close = partial(torch.testing.assert_close, rtol=within, atol=within)
    x, change = (torch.randn(40, 6).to(dtype).requires_grad_() for _ in range(2))
    torch.manual_seed(5)
    found = Dropout(0.3)(change, x)
    torch.manual_seed(5)
    left = Dropout(0.3)(change)
    kept = left != 0
    assert 0 < kept.float().mean() < 1
    close(left[kept], change[kept] / 0.7)
    close(found, x + left)
    upper = torch.randn_like(x)
    close(*(torch.autograd.grad(out, (x, change), upper) for out in (found, x + left)))
    assert Dropout(0.5).eval()(x) is x and Dropout(0.0)(x) is x
    assert Dropout(0.3).eval()(change, x).equal(x + change)


def low(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16)


def test_a_layer_computes_in_its_inputs_precision_and_learns_in_fp32() -> None:
    torch.manual_seed(0)
    layer, x = Linear(8, 6), torch.randn(5, 8)
    expected = nn.functional.linear(x, layer.weight, layer.bias)
    assert torch.equal(layer(x), expected)
    found = layer(low(x))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02)
    found.float().square().sum().backward()
    wanted = torch.autograd.grad(expected.square().sum(), list(layer.parameters()))
    for parameter, gradient in zip(layer.parameters(), wanted, strict=True):
        assert parameter.grad.dtype == torch.float32
        torch.testing.assert_close(parameter.grad, gradient, rtol=0.05, atol=0.2)


@torch.no_grad()
def test_the_copy_in_bf16_follows_the_weight_and_is_made_once() -> None:
    torch.manual_seed(0)
    layer, x = Linear(8, 6), torch.randn(5, 8)
    layer(low(x))
    layer._copy.zero_()  # so that a second copy would show
    assert layer(low(x)).equal(low(layer.bias).expand(5, 6))
    layer.load_state_dict({"weight": torch.ones(6, 8), "bias": torch.zeros(6)})
    expected = nn.functional.linear(low(x), torch.ones(6, 8).bfloat16())
    assert torch.equal(layer(low(x)), expected)


def test_in_bf16_no_layer_changes_dtype_on_the_way() -> None:
    encoder = whole_encoder(TINY, STILL)
    initialise(encoder, torch.Generator().manual_seed(0))
    expected = encoder(random_batch())
    kinds: set[torch.dtype] = set()
    for part in encoder.layers.modules():
        part.register_forward_hook(lambda _, __, output: kinds.add(output.dtype))
    compute_in(encoder, "bf16")
    found = encoder(random_batch())
    assert kinds == {torch.bfloat16}
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.1)
    compute_in(encoder, "fp32")
    assert torch.equal(encoder(random_batch()), expected)
