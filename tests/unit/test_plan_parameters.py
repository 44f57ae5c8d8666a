"""Counted parameters: BERT's known figures, the sharing rules, and the modules themselves."""

from __future__ import annotations

import random
from typing import Any

import pytest

from minbert.model.multitask import MultitaskModel
from minbert.plan.parameters import count
from minbert.spec.architecture import BERT_BASE, Architecture
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS

LOSSES = {"classification": "cross_entropy", "binary": "binary_cross_entropy", "regression": "mse"}
BERT, LAYER, POOLER = 109_482_240, 7_087_872, 590_592
ARCH = Architecture(vocab_size=30, hidden=12, layers=3, heads=2, intermediate=20, positions=16)
SST: dict[str, dict[str, Any]] = {"sst": {"loss": "cross_entropy"}}
FUSED = (7, 2, 5)


def make(tasks: dict[str, dict[str, Any]], **stage: Any) -> StageSpec:
    return StageSpec.model_validate({"tasks": tasks, **stage})


def three(shared: float | str, **values: Any) -> StageSpec:
    """The papers' three tasks, with heads of three layers."""
    kinds = {"sst": "classification", "para": "binary", "sts": "regression"}
    tasks: dict[str, dict[str, Any]] = {
        task: {"loss": LOSSES[kind], "head": {"depth": 3}} for task, kind in kinds.items()
    }
    for task in ("para", "sts"):
        tasks[task]["pairing"] = "cross"
    return make(tasks, shared_layers=shared, **values)


def test_the_papers_models() -> None:
    large = Architecture(hidden=1024, layers=24, heads=16, intermediate=4096)
    for arch, total in ((BERT_BASE, BERT), (large, 335_141_888)):
        assert arch.parameters().total == total, "with its pooler"
    heads = sum(768 * 256 + 256 + 256 * 256 + 256 + 257 * classes for classes in (5, 1, 1))
    one, apart, hybrid = (count(three(s), BERT_BASE) for s in ("all", "none", 0.5))
    top = count(three(6, shared_end="top"), BERT_BASE)
    assert one and apart and hybrid and top
    assert one["total"] == one["trainable"] == BERT + heads
    assert apart["encoder"] == 3 * BERT
    assert hybrid["encoder"] == BERT + 2 * (6 * LAYER + POOLER)
    assert top["encoder"] == 3 * BERT - 2 * (6 * LAYER + POOLER), "the embeddings are copied"


def test_a_head_that_is_not_known_here() -> None:
    spec = make(SST)
    head = spec.tasks["sst"].head.model_copy(update={"name": "odd"})
    task = spec.tasks["sst"].model_copy(update={"head": head})
    assert count(spec.model_copy(update={"tasks": {"sst": task}}), ARCH) is None


@pytest.mark.parametrize("seed", range(15))
def test_counts_are_those_of_the_modules(seed: int) -> None:
    """Of each way to share or insert, with every head, and with convolutions."""
    draw = random.Random(seed)
    sizes = {
        "vocab_size": draw.randint(5, 50),
        "hidden": draw.randint(1, 6) * 4,
        "layers": draw.randint(1, 4),
        "intermediate": draw.randint(4, 40),
    }
    arch = ARCH.model_copy(update=sizes)
    tasks: dict[str, dict[str, Any]] = {}
    for name in draw.sample(list(TASKS), draw.randint(1, 4)):
        pairing = draw.choice(["siamese", "cross"]) if TASKS[name].pair else None
        features = draw.sample(["u", "v", "u*v", "|u-v|"], draw.randint(1, 4))
        kernel = draw.choice([None, {"kernel": 3, "residual": True}, {"kernel": 5}])
        tasks[name] = {
            "loss": LOSSES[TASKS[name].kind],
            "pairing": pairing,
            "features": features if pairing == "siamese" else None,
            "pooling": draw.choice(["cls", "mean"]),
            "convolution": kernel,
            "head": {"depth": draw.randint(1, 4), "width": draw.randint(1, 40)},
        }
        if name == "sts" and pairing == "siamese":
            head = {"name": "cosine", "depth": draw.randint(0, 3), "width": 9}
            tasks[name] |= {"loss": "cosine_mse", "features": ["u", "v"], "head": head}
    for name in list(tasks)[1:]:
        tasks[name]["trained"] = draw.random() < 0.8
    shared = draw.choice(["all", "none", draw.randint(0, arch.layers), 0.4])
    inserted: dict[str, Any] = draw.choice(
        [
            {"shared_layers": shared},
            {"trainable": "adapters", "adapter": {"width": draw.randint(1, 9)}},
            {"trainable": "fusion", "fuse": ["x", "y", "z"]},
        ]
    )
    spec = make(tasks, **inserted)
    model = MultitaskModel(arch, spec)
    kind, first = load_part("trainable", spec.trainable), "layers.0.attention.adapter.adapters"
    widths = {f"{first}.{n}.down.weight": range(width) for n, width in enumerate(FUSED)}
    kind.insert(model.encoder.requires_grad_(not kind.frozen), spec, widths)
    trained = model.trained_parameters()
    for task in spec.trained_tasks:
        trained |= model.trained_parameters(task)
    heads = [*model.heads.parameters(), *model.convolutions.parameters()]
    assert count(spec, arch, FUSED if spec.fuse else ()) == {
        "total": sum(p.numel() for p in model.parameters()),
        "trainable": sum(p.numel() for p in trained.values()),
        "encoder": sum(p.numel() for p in model.encoder.parameters()),
        "heads": sum(p.numel() for p in heads),
    }
