from __future__ import annotations

import pytest
import torch
from model_batches import (
    STILL,
    TINY,
    random_batch,
)
from torch import Tensor

from minbert.model import encoder as encoder_module
from minbert.model.encoder import Attention, Stack, initialise, whole_encoder
from minbert.spec.stage import Dropout


def tiny(dropout: Dropout = STILL, seed: int = 0) -> Stack:
    encoder = whole_encoder(TINY, dropout)
    initialise(encoder, torch.Generator().manual_seed(seed))
    for name, parameter in encoder.named_parameters():
        if "norm" not in name:
            parameter.data *= 10  # so that attention is far from uniform
    return encoder


def gradients(encoder: Stack, loss: Tensor) -> dict[str, Tensor]:
    named = {n: p for n, p in encoder.named_parameters() if not n.startswith("pooler")}
    return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))


def test_no_gradient_crosses_from_one_row_to_another_or_to_padding() -> None:
    encoder = tiny()
    batch = random_batch()
    upper = Stack(TINY, STILL, layers=[0, 1], embeddings=False, pooler=False)
    hidden = torch.randn(len(batch.tokens), TINY.hidden, requires_grad=True)
    second = upper(batch, hidden)[5:22]
    (gradient,) = torch.autograd.grad(second.pow(3).sum(), hidden)
    assert (gradient[5:22].abs().sum(1) > 0).all()
    assert (gradient[:5] == 0).all()
    assert (gradient[22:] == 0).all()
    words = gradients(encoder, encoder(batch).pow(3).sum())["embeddings.word.weight"]
    assert (words[0] == 0).all()


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    encoder = tiny(Dropout())
    batch = random_batch()
    assert not torch.equal(encoder(batch), encoder(batch))
    torch.manual_seed(1)
    first = encoder(batch)
    torch.manual_seed(1)
    assert torch.equal(first, encoder(batch))
    encoder.eval()
    assert torch.equal(encoder(batch), encoder(batch))
    torch.testing.assert_close(encoder(batch), tiny().eval()(batch), atol=1e-6, rtol=0)


def test_hidden_dropout_alone_leaves_attention_weights_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates: list[float] = []
    monkeypatch.setattr(
        encoder_module, "attend", lambda *given: rates.append(given[-1]) or given[0][:, :12]
    )
    layer = Attention(TINY, Dropout(sublayer=0.5, attention=0.25))
    batch = random_batch()
    hidden = torch.randn(len(batch.tokens), TINY.hidden)
    layer(hidden, batch)
    layer.eval()(hidden, batch)
    assert rates == [0.25, 0.0]


def test_initial_weights_are_berts() -> None:
    encoder = whole_encoder(TINY.model_copy(update={"vocab_size": 5000}), STILL)
    initialise(encoder)
    for name, parameter in encoder.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
    words = encoder.get_parameter("embeddings.word.weight")
    assert float(words.detach().std()) == pytest.approx(0.02, rel=0.02)
