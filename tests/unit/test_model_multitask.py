from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from model_batches import STILL, TINY, concatenate, one_by_one, random_batch
from torch import nn

from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights, save_weights
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
