"""Layers in bf16 beside weights in fp32: copies that follow the weights, gradients in fp32."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from model_batches import STILL, TINY, random_batch
from torch import nn

from minbert.model.encoder import compute_in, initialise, whole_encoder
from minbert.model.precision import LayerNorm, Linear, to_fp32
from minbert.spec.stage import Optimiser
from minbert.train.optimiser import AdamW


def low(x: torch.Tensor) -> torch.Tensor:
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
        assert parameter.grad is not None and parameter.grad.dtype == torch.float32
        torch.testing.assert_close(parameter.grad, gradient, rtol=0.05, atol=0.2)


@pytest.mark.parametrize("change", ["optimiser", "copy_", "load_state_dict", "other dtype"])
def test_the_copy_follows_the_weight(change: str) -> None:
    torch.manual_seed(0)
    layer, x = Linear(8, 6), torch.randn(5, 8)
    layer(low(x)).float().sum().backward()
    before = layer.weight.detach().clone()
    if change == "optimiser":
        AdamW(layer.parameters(), Optimiser(lr=0.1), lambda step: (1.0, None)).step()
    elif change == "copy_":
        with torch.no_grad():
            layer.weight.copy_(torch.ones(6, 8))
    elif change == "load_state_dict":
        layer.load_state_dict({"weight": torch.ones(6, 8), "bias": torch.zeros(6)})
    else:
        layer(x.to(torch.float16))
    assert (change == "other dtype") == torch.equal(before, layer.weight)
    expected = nn.functional.linear(low(x), low(layer.weight), low(layer.bias))
    assert torch.equal(layer(low(x)), expected)


def test_the_copy_is_made_once_for_several_passes() -> None:
    layer, x = Linear(8, 6), low(torch.randn(5, 8))
    layer(x)
    made = layer._copy
    assert made is not None
    made.zero_()  # so that a second copy would show
    assert not layer(x)[:, 0].equal(low(nn.functional.linear(x.float(), layer.weight))[:, 0])
    assert layer._copy is made


def test_norms_take_bf16_rows_with_fp32_weights() -> None:
    norm, x = LayerNorm(8), torch.randn(5, 8)
    with torch.no_grad():
        norm.weight.normal_()
    found = norm(low(x))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), norm(x), rtol=0.02, atol=0.03)


def test_nothing_in_an_encoder_changes_dtype_on_the_way() -> None:
    torch.manual_seed(0)
    encoder = whole_encoder(TINY, STILL)
    initialise(encoder)
    expected = encoder(random_batch())
    kinds: dict[str, Any] = {}
    for name, part in encoder.named_modules():
        part.register_forward_hook(lambda _, __, out, name=name: kinds.update({name: out.dtype}))
    compute_in(encoder, "bf16")
    found = encoder(random_batch())
    inside = {dtype for name, dtype in kinds.items() if name.startswith("layers.")}
    assert inside == {torch.bfloat16}
    torch.testing.assert_close(to_fp32(found), expected, rtol=0, atol=0.1)
    compute_in(encoder, "fp32")
    assert torch.equal(encoder(random_batch()), expected)
