from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from model_batches import (
    MIXED,
    STILL,
    TINY,
    minilm_folder,
    one_by_one,
    pack,
    padded_inputs,
    random_batch,
)
from torch import Tensor

from minbert.base.errors import UserError
from minbert.model import encoder as encoder_module
from minbert.model.convert import convert_hugging_face
from minbert.model.encoder import Attention, Stack, initialise, whole_encoder
from minbert.model.weights import load_weights
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.stage import Dropout


def tiny(dropout: Dropout = STILL, seed: int = 0) -> Stack:
    encoder = whole_encoder(TINY, dropout)
    initialise(encoder, torch.Generator().manual_seed(seed))
    for name, parameter in encoder.named_parameters():
        if "norm" not in name:
            parameter.data *= 10  # so that attention is far from uniform
    return encoder


def assert_equals_transformers(folder: Path, out: Path, seed: int) -> None:
    transformers = pytest.importorskip("transformers")
    reference = transformers.BertModel.from_pretrained(folder).eval()
    convert_hugging_face(folder, out)
    arch = read_architecture(out / "config.json")
    encoder = whole_encoder(arch, Dropout()).eval()
    encoder.load_state_dict(load_weights(out / WEIGHTS))
    batch = random_batch((*MIXED, 33), vocabulary=arch.vocab_size, seed=seed)
    inputs = padded_inputs(batch)
    with torch.no_grad():
        expected = reference(**inputs)
        hidden = encoder(batch)
        pooler = encoder.pooler
        assert pooler is not None
        pooled = pooler(hidden[batch.first])
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(hidden, expected.last_hidden_state[real], atol=1e-5, rtol=0)
    torch.testing.assert_close(pooled, expected.pooler_output, atol=1e-5, rtol=0)


def test_equals_transformers_on_a_random_bert(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=64,
        initializer_range=0.4,
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "hf")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(55))]
    (tmp_path / "hf" / "vocab.txt").write_text("\n".join(words) + "\n")
    assert_equals_transformers(tmp_path / "hf", tmp_path / "ours", seed=1)


def test_equals_transformers_on_minilm(tmp_path: Path) -> None:
    assert_equals_transformers(minilm_folder(), tmp_path / "ours", seed=2)


def test_packed_equals_one_by_one() -> None:
    encoder = tiny().eval()
    batch = random_batch()
    alone = torch.cat([encoder(row) for row in one_by_one(batch)])
    torch.testing.assert_close(encoder(batch), alone, atol=1e-5, rtol=0)


def gradients(encoder: Stack, loss: Tensor) -> dict[str, Tensor]:
    named = {n: p for n, p in encoder.named_parameters() if not n.startswith("pooler")}
    return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))


def test_gradients_of_packed_equal_those_of_one_by_one() -> None:
    encoder = tiny().double()
    batch = random_batch()
    together = gradients(encoder, encoder(batch).pow(3).sum())
    alone = gradients(encoder, sum(encoder(row).pow(3).sum() for row in one_by_one(batch)))
    for name, gradient in together.items():
        torch.testing.assert_close(gradient, alone[name], atol=1e-9, rtol=1e-9, msg=name)


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


def test_double_precision_gradients_are_those_of_finite_differences() -> None:
    arch = TINY.model_copy(update={"hidden": 4, "layers": 1, "intermediate": 5})
    torch.manual_seed(0)
    stack = Stack(arch, STILL, layers=[0], embeddings=False, pooler=False).double()
    batch = random_batch((3, 1, 2))
    qkv = "layers.0.attention.qkv.weight"
    weight = dict(stack.named_parameters())[qkv].detach().clone().requires_grad_()
    hidden = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)

    def output(weight: Tensor, hidden: Tensor) -> Any:
        return torch.func.functional_call(stack, {qkv: weight}, (batch, hidden))

    assert torch.autograd.gradcheck(output, (weight, hidden))


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


def test_too_long_a_row_names_both_lengths() -> None:
    with pytest.raises(UserError, match=r"41 tokens.*40 positions.*max_length"):
        tiny()(random_batch((3, 41)))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(UserError, match=r"12 hidden units.*5 heads"):
        Attention(TINY.model_copy(update={"heads": 5}), STILL)


def test_stack_needs_one_start() -> None:
    batch = pack([1, 2], [0, 0], [2])
    with pytest.raises(ValueError, match="its own embeddings or"):
        tiny()(batch, torch.zeros(2, TINY.hidden))
    with pytest.raises(ValueError, match="its own embeddings or"):
        Stack(TINY, STILL, layers=[0], embeddings=False, pooler=False)(batch)
