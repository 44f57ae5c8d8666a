"""Counted parameters: BERT's known figure, the sharing rules, and the modules themselves."""

import random

import pytest

from minbert.base.errors import UserError
from minbert.plan.parameters import count
from minbert.spec.architecture import (
    BERT_BASE,
    BERT_LARGE,
    Architecture,
    shared_depth,
)
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS

LOSSES = {"classification": "cross_entropy", "binary": "binary_cross_entropy", "regression": "mse"}


def test_bert_with_its_pooler() -> None:
    for arch, total in ((BERT_BASE, 109_482_240), (BERT_LARGE, 335_141_888)):
        assert arch.parameters().total == total


@pytest.mark.parametrize(
    ("shared", "depth"),
    [("all", 12), ("none", None), (0, 0), (12, 12), (0.5, 6), (0.3, 4), (1.0, 12)],
)
def test_shared_depth(shared: float | str, depth: int | None) -> None:
    assert shared_depth(shared, 12) == depth


def test_more_shared_layers_than_there_are() -> None:
    with pytest.raises(UserError, match=r"shared_layers is 13, but the backbone has 12 layers"):
        shared_depth(13, 12)


def stage(shared: float | str, **values: object) -> StageSpec:
    tasks = {
        name: {
            "loss": LOSSES[TASKS[name].kind],
            "pairing": "cross" if TASKS[name].pair else None,
            "head": {"depth": 3},
        }
        for name in ("sst", "para", "sts")
    }
    return StageSpec.model_validate({"tasks": tasks, "shared_layers": shared, **values})


def test_the_papers_three_models() -> None:
    heads = sum(768 * 256 + 256 + 256 * 256 + 256 + 257 * classes for classes in (5, 1, 1))
    one, three, hybrid = (count(stage(s), BERT_BASE) for s in ("all", "none", 0.5))
    assert one["total"] == one["trainable"] == 109_482_240 + heads
    assert three["encoder"] == 3 * 109_482_240
    above = 6 * 7_087_872 + 590_592
    assert hybrid["encoder"] == 109_482_240 + 2 * above
    assert 0.59 < hybrid["total"] / three["total"] < 0.6
    assert one["heads"] == three["heads"] == hybrid["heads"] == heads
    assert count(stage(12), BERT_BASE) == one


def test_sharing_at_the_top_copies_the_embeddings() -> None:
    spec = stage(6, shared_end="top")
    shared = 6 * 7_087_872 + 590_592
    assert count(spec, BERT_BASE)["encoder"] == 3 * 109_482_240 - 2 * shared
    assert count(stage(12, shared_end="top"), BERT_BASE) == count(stage("all"), BERT_BASE)


def test_a_frozen_encoder_trains_the_heads_of_trained_tasks_only() -> None:
    spec = StageSpec.model_validate(
        {
            "trainable": "heads",
            "tasks": {
                "sst": {"loss": "cross_entropy"},
                "sts": {
                    "loss": "mse",
                    "pairing": "siamese",
                    "features": ["u", "v", "u*v"],
                    "trained": False,
                },
            },
        }
    )
    counted = count(spec, BERT_BASE)
    assert counted["trainable"] == 769 * 5
    assert counted["heads"] == 769 * 5 + 3 * 768 + 1


def test_layers_of_an_untrained_task_are_not_trainable() -> None:
    spec = stage("none")
    sts = spec.tasks["sts"].model_copy(update={"trained": False})
    partly = spec.model_copy(update={"tasks": {**spec.tasks, "sts": sts}})
    all_of_it, some = count(spec, BERT_BASE), count(partly, BERT_BASE)
    assert all_of_it["total"] == some["total"]
    lost = 109_482_240 + 768 * 256 + 256 + 256 * 256 + 256 + 257
    assert all_of_it["trainable"] - some["trainable"] == lost


def random_spec(draw: random.Random, layers: int) -> StageSpec:
    tasks = {}
    for name in draw.sample(list(TASKS), draw.randint(1, 4)):
        task = TASKS[name]
        pairing = draw.choice(["siamese", "cross"]) if task.pair else None
        features = draw.sample(["u", "v", "u*v", "|u-v|"], draw.randint(1, 4))
        tasks[name] = {
            "loss": LOSSES[task.kind],
            "pairing": pairing,
            "features": features if pairing == "siamese" else None,
            "pooling": draw.choice(["cls", "mean"]),
            "head": {"depth": draw.randint(1, 4), "width": draw.randint(1, 40)},
        }
    shared = draw.choice(["all", "none", draw.randint(0, layers), draw.uniform(0.01, 1)])
    return StageSpec.model_validate({"tasks": tasks, "shared_layers": shared})


@pytest.mark.parametrize("seed", range(25))
def test_counts_are_those_of_the_modules(seed: int) -> None:
    pytest.importorskip("torch")
    from minbert.model.multitask import MultitaskModel

    draw = random.Random(seed)
    arch = Architecture(
        vocab_size=draw.randint(5, 50),
        hidden=draw.randint(1, 6) * 4,
        layers=draw.randint(1, 4),
        heads=2,
        intermediate=draw.randint(4, 40),
        positions=draw.randint(8, 20),
    )
    spec = random_spec(draw, arch.layers)
    model = MultitaskModel(arch, spec)
    counted = count(spec, arch)
    assert counted["encoder"] == sum(p.numel() for p in model.encoder.parameters())
    assert counted["heads"] == sum(p.numel() for p in model.heads.parameters())
    assert counted["total"] == sum(p.numel() for p in model.parameters())
    trained = {id(p): p for t in spec.trained_tasks for p in model.own_parameters(t)}
    trained |= {id(p): p for p in model.shared_parameters()}
    assert counted["trainable"] == sum(p.numel() for p in trained.values())
