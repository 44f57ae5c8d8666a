"""Counted parameters of adapters, fusions, convolutions and cosine heads: the modules' own."""

from __future__ import annotations

from typing import Any

import pytest

from minbert.plan.parameters import count
from minbert.spec.architecture import BERT_BASE, Architecture
from minbert.spec.parts import PARTS
from minbert.spec.stage import StageSpec

ARCH = Architecture(vocab_size=30, hidden=12, layers=3, heads=2, intermediate=20, positions=16)
SIAMESE = {"pairing": "siamese", "features": ["u", "v"]}
TASKS: dict[str, dict[str, Any]] = {
    "sst": {"loss": "cross_entropy", "convolution": {"kernel": 5}},
    "sts": {**SIAMESE, "loss": "cosine_mse", "head": {"name": "cosine", "depth": 0}},
}
FROZEN: dict[str, dict[str, Any]] = {
    "adapters": {"trainable": "adapters", "adapter": {"width": 7}},
    "fusion": {"trainable": "fusion", "fuse": ["a/x", "a/y", "a/z"]},
}
FUSED = (7, 2, 5)


def make(tasks: dict[str, dict[str, Any]], **stage: Any) -> StageSpec:
    return StageSpec.model_validate({"tasks": tasks, **stage})


@pytest.mark.parametrize("how", list(FROZEN))
def test_what_is_inserted(how: str) -> None:
    pytest.importorskip("torch")
    from minbert.model.adapter import add_adapters
    from minbert.model.fusion import add_fusion
    from minbert.model.multitask import MultitaskModel

    spec = make(TASKS, **FROZEN[how])
    model = MultitaskModel(ARCH, spec)
    if spec.adapter:
        add_adapters(model.encoder, spec.adapter.width)
    else:
        add_fusion(model.encoder, FUSED)
    counted = count(spec, ARCH, FUSED if spec.fuse else ())
    assert counted["total"] == sum(p.numel() for p in model.parameters())
    assert counted["encoder"] == sum(p.numel() for p in model.encoder.parameters())
    trained = [p for p in model.parameters() if p.requires_grad]
    assert counted["trainable"] == sum(p.numel() for p in trained)
    outside = [*model.heads.parameters(), *model.convolutions.parameters()]
    assert counted["heads"] == sum(p.numel() for p in outside)


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_cosine_heads_and_convolutions(depth: int, trained: bool) -> None:
    pytest.importorskip("torch")
    from minbert.model.multitask import MultitaskModel

    head = {"name": "cosine", "depth": depth, "width": 9}
    more = {"convolution": {"kernel": 3, "residual": True}, "trained": trained}
    spec = make({**TASKS, "sts": {**TASKS["sts"], **more, "head": head}}, shared_layers=1)
    model = MultitaskModel(ARCH, spec)
    counted = count(spec, ARCH)
    assert counted["total"] == sum(p.numel() for p in model.parameters())
    used = [
        *model.shared_parameters(),
        *(p for t in spec.trained_tasks for p in model.own_parameters(t)),
    ]
    assert counted["trainable"] == sum(p.numel() for p in used)
    heads = [p for part in (model.heads, model.convolutions) for p in part.parameters()]
    assert counted["heads"] == sum(p.numel() for p in heads)


def test_berts_figures() -> None:
    # Adapters as in Houlsby et al.: 2 a layer, two maps and their biases each.
    one = 2 * 768 * 64 + 64 + 768
    sst: dict[str, dict[str, Any]] = {"sst": {"loss": "cross_entropy"}}
    adapters = count(make(sst, trainable="adapters", adapter={"width": 64}), BERT_BASE)
    assert adapters["trainable"] == 24 * one + 769 * 5
    assert adapters["encoder"] == 109_482_240 + 24 * one
    fusion = count(make(sst, **FROZEN["fusion"]), BERT_BASE, (64, 64, 64))
    assert fusion["trainable"] == 24 * (3 * 768 * 768 + 768) + 769 * 5
    assert fusion["encoder"] == 109_482_240 + 24 * (3 * one + 3 * 768 * 768 + 768)


def test_a_head_that_is_not_known_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTS["head"], "odd", "somewhere.else:Odd")
    known, odd = (
        count(make({**TASKS, "sst": {"loss": "cross_entropy", "head": {"name": name}}}), ARCH)
        for name in ("mlp", "odd")
    )
    assert known["total"] is not None and known["heads"] is not None
    assert odd == {"total": None, "trainable": None, "encoder": known["encoder"], "heads": None}
