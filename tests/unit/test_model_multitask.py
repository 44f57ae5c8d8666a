from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from model_batches import STILL, TINY, concatenate, initial_backbone, one_by_one, pack, random_batch
from torch import nn

from minbert.model.mlm import MaskedLanguageModel, mimetic
from minbert.model.multitask import MultitaskModel
from minbert.model.sharing import SharedEncoder
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import shared_parts
from minbert.spec.stage import StageSpec
from minbert.spec.task import Head, TaskSpec

HEAD = Head(dropout=0.0)
FEATURES = ("u", "v", "|u-v|")
TASKS = {
    "sts": TaskSpec(loss="mse", pairing="siamese", pooling="mean", features=FEATURES, head=HEAD),
    "para": TaskSpec(loss="binary_cross_entropy", pairing="cross", head=Head(depth=3, width=6)),
    "sst": TaskSpec(loss="cross_entropy", head=HEAD),
}


def model(**changes: Any) -> MultitaskModel:
    torch.manual_seed(0)
    return MultitaskModel(TINY, StageSpec(tasks=TASKS, dropout=STILL, **changes))


def test_tasks_follow_the_registry_and_have_their_logits() -> None:
    made = model()
    assert list(made.heads) == ["sst", "para", "sts"]
    assert made("sst", random_batch((3, 4, 2, 5))).shape == (4, 5)
    assert made("para", random_batch((3, 4, 2, 5))).shape == (4, 1)
    assert made("sts", random_batch((3, 4, 2, 5))).shape == (2, 1)


def test_siamese_pairs_row_i_with_row_b_plus_i() -> None:
    made = model().eval()
    batch = random_batch((3, 4, 2, 5))
    rows = one_by_one(batch)
    for n in range(2):
        pair = concatenate([rows[n], rows[2 + n]])
        swapped = concatenate([rows[2 + n], rows[n]])
        torch.testing.assert_close(made("sts", pair)[0], made("sts", batch)[n])
        assert not torch.allclose(made("sts", swapped)[0], made("sts", batch)[n])


def test_logits_are_the_heads_of_what_is_pooled() -> None:
    made = model().eval()
    batch = random_batch((3, 4, 2, 5))
    pooled = made.pooled("sts", batch)
    assert pooled.shape == (4, TINY.hidden)
    assert torch.equal(made.from_pooled("sts", pooled), made("sts", batch))
    hidden = made.encoder("sts", batch)
    torch.testing.assert_close(pooled[0], hidden[:3].mean(0))
    first = made.encoder.pooler("sst")(made.encoder("sst", batch)[batch.first])
    assert torch.equal(made.pooled("sst", batch), first)


@pytest.mark.parametrize("shared", ["all", "none", 1, 0.5])
def test_every_parameter_is_shared_or_one_tasks(shared: Any) -> None:
    made = model(shared_layers=shared)
    groups = [made.shared_parameters(), *(made.own_parameters(t) for t in TASKS)]
    assert sum(map(len, groups)) == len(list(made.parameters()))
    assert {id(p) for g in groups for p in g} == {id(p) for p in made.parameters()}
    heads = {id(p) for p in made.heads.parameters()}
    assert not heads & {id(p) for p in made.shared_parameters()}
    assert (len(groups[0]) == 0) == (shared == "none")


def test_a_tasks_loss_reaches_no_other_tasks_parameters() -> None:
    made = model(shared_layers=1)
    made("sts", random_batch((3, 4, 2, 5))).sum().backward()
    for task in ("sst", "para"):
        assert all(p.grad is None for p in made.own_parameters(task))
    assert all(p.grad is not None for p in made.shared_parameters())
    without = [n for n, p in made.encoder.own["sts"].named_parameters() if p.grad is None]
    assert without == ["pooler.dense.weight", "pooler.dense.bias"]  # mean pooling has no use for it


def test_heads_start_as_torchs_linear_layers_and_follow_the_seed() -> None:
    wide = TASKS | {"para": TASKS["para"].model_copy(update={"head": Head(depth=3, width=300)})}
    spec = StageSpec(tasks=wide)
    torch.manual_seed(1)
    first = MultitaskModel(TINY, spec)
    torch.manual_seed(1)
    second = MultitaskModel(TINY, spec)
    torch.manual_seed(2)
    third = MultitaskModel(TINY, spec)
    name = "para.linears.1.weight"
    weight = first.heads.get_parameter(name)
    # Uniform within 1 / sqrt(300), as in the course's starter code: not BERT's 0.02.
    assert float(weight.detach().std()) == pytest.approx((3 * 300) ** -0.5, rel=0.02)
    assert float(weight.detach().abs().max()) <= 300**-0.5
    assert torch.equal(weight, second.heads.get_parameter(name))
    assert not torch.equal(weight, third.heads.get_parameter(name))


def test_saved_and_loaded_to_the_bit(tmp_path: Path) -> None:
    made = model(shared_layers=1)
    save_weights(tmp_path / "model.safetensors", made.state_dict())
    other = model(shared_layers=1)
    nn.init.ones_(other.heads.get_parameter("sst.linears.0.weight"))
    other.load_state_dict(load_weights(tmp_path / "model.safetensors"))
    assert made.state_dict().keys() == other.state_dict().keys()
    for name, tensor in made.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    batch = random_batch((3, 4, 2, 5))
    for task in TASKS:
        assert torch.equal(made.eval()(task, batch), other.eval()(task, batch))


def test_parameter_names_are_stable() -> None:
    spec = StageSpec(tasks={"sst": TASKS["sst"], "para": TASKS["para"]}, shared_layers=2)
    names = {n for n, _ in MultitaskModel(TINY, spec).named_parameters()}
    assert {
        "encoder.shared.embeddings.word.weight",
        "encoder.shared.embeddings.token_type.weight",
        "encoder.shared.layers.1.attention.qkv.bias",
        "encoder.own.sst.layers.2.attention.output.weight",
        "encoder.own.para.layers.2.feed_forward.inner.weight",
        "encoder.own.para.layers.2.feed_forward.norm.bias",
        "encoder.own.sst.pooler.dense.weight",
        "heads.para.linears.2.bias",
    } <= names


def test_masked_language_model_scores_masked_tokens_with_tied_words() -> None:
    torch.manual_seed(0)
    made = MaskedLanguageModel(TINY, STILL).eval()
    batch = random_batch()
    masked = torch.tensor([2, 7, 40])
    logits, follows = made(batch, masked)
    assert logits.shape == (3, TINY.vocab_size)
    assert follows.shape == (batch.rows,)
    pooled = made.encoder.pooler(made.encoder(batch)[batch.first])
    torch.testing.assert_close(follows, made.follows(pooled).squeeze(-1))
    hidden = made.norm(nn.functional.gelu(made.dense(made.encoder(batch)[masked])))
    words = made.encoder.get_parameter("embeddings.word.weight")
    torch.testing.assert_close(logits, hidden @ words.T + made.bias)
    assert sum(p.shape == words.shape for p in made.parameters()) == 1
    assert "bias" in dict(made.named_parameters())


def test_masked_language_models_encoder_is_a_backbone() -> None:
    state = MaskedLanguageModel(TINY, STILL).encoder.state_dict()
    assert state.keys() == initial_backbone(TINY, seed=0).keys()
    SharedEncoder(TINY, ["sst"], shared_parts("all", "bottom", TINY.layers), STILL).load_backbone(
        state
    )


def test_masked_language_model_learns_a_constant_text() -> None:
    torch.manual_seed(0)
    made = MaskedLanguageModel(TINY, STILL)
    batch = pack([5, 6, 7, 8] * 2, [0] * 8, [4, 4])
    optimiser = torch.optim.AdamW(made.parameters(), lr=1e-2)
    for _ in range(30):
        logits, _ = made(batch, torch.tensor([1, 5]))
        loss = nn.functional.cross_entropy(logits, torch.tensor([6, 6]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.1


def test_mimetic_attention_finds_a_words_twin() -> None:
    torch.manual_seed(0)
    wide = TINY.model_copy(update={"hidden": 128, "heads": 2, "intermediate": 128})
    encoder = MaskedLanguageModel(wide, STILL).encoder.eval()
    before = encoder.state_dict()["embeddings.position.weight"].std()
    mimetic(encoder, torch.Generator().manual_seed(0))
    assert encoder.state_dict()["embeddings.position.weight"].std() < 0.3 * before
    attention = encoder.layers["0"].attention
    query, key, value = attention.qkv.weight.detach().chunk(3)
    eye = torch.eye(128)
    torch.testing.assert_close(query.T @ key, eye, atol=1e-5, rtol=0)
    torch.testing.assert_close(attention.output.weight.detach() @ value, eye, atol=1e-5, rtol=0)
    # [CLS] 7 8 9 [SEP] 9 10 11 [SEP]: the 9 of one sentence looks at itself and at the other 9.
    batch = pack([2, 7, 8, 9, 3, 9, 10, 11, 3], [0] * 5 + [1] * 4, [9])
    with torch.no_grad():
        hidden = encoder.embeddings(batch)
        scores = (hidden[3] @ query[:64].T) @ (hidden @ key[:64].T).T / 8
    assert sorted(scores.topk(2).indices.tolist()) == [3, 5]
