"""A frozen encoder: cached features, and heads trained on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from minbert.base.errors import UserError
from minbert.spec.stage import StageSpec
from minbert.train.cached import Cached
from minbert.train.features import cache_features
from minbert.train.finetune import Finetuned
from minbert.train.run import train_stage

CPU = torch.device("cpu")
TASKS: dict[str, dict[str, Any]] = {
    "sst": {"pooling": "cls"},
    "para": {"pooling": "mean", "pairing": "siamese", "features": ["u", "v", "u*v"]},
    "sts": {"pooling": "mean", "pairing": "cross", "head": {"depth": 2}},
}


@pytest.fixture
def spec(make_spec: Any) -> StageSpec:
    return make_spec(TASKS, trainable="heads", epochs=2, optimiser={"lr": 0.01})


@pytest.fixture
def features(
    spec: StageSpec, backbone: Path, tokens: dict[str, Path], tmp_path: Path
) -> dict[str, Path]:
    paths = {task: tmp_path / task / "features.safetensors" for task in TASKS}
    for task, path in paths.items():
        chosen = spec.tasks[task]
        cache_features(task, chosen.pooling, chosen.pairing, 512, backbone, tokens[task], path, CPU)
    return paths


def test_shapes(features: dict[str, Path]) -> None:
    shapes = {
        task: {split: tuple(t.shape) for split, t in load_file(path).items()}
        for task, path in features.items()
    }
    assert shapes == {
        "sst": {"train": (11, 32), "dev": (6, 32), "test": (5, 32)},
        "para": {"train": (36, 32), "dev": (16, 32), "test": (8, 32)},
        "sts": {"train": (10, 32), "dev": (7, 32), "test": (5, 32)},
    }
    assert all(t.dtype == torch.float32 for p in features.values() for t in load_file(p).values())


def test_caching_twice_gives_the_same_bytes(
    features: dict[str, Path], backbone: Path, tokens: dict[str, Path], tmp_path: Path
) -> None:
    again = tmp_path / "again.safetensors"
    cache_features("para", "mean", "siamese", 512, backbone, tokens["para"], again, CPU)
    assert again.read_bytes() == features["para"].read_bytes()


def test_outputs_on_features_are_the_whole_models(
    spec: StageSpec, features: dict[str, Path], sources: Any
) -> None:
    cached = Cached(spec, sources(features=features), CPU)
    whole = Finetuned(spec.model_copy(update={"trainable": "all"}), sources(), CPU)
    unfit = whole.module.load_state_dict(cached.weights(), strict=False)
    assert not unfit.unexpected_keys
    assert all(name.startswith("encoder.") for name in unfit.missing_keys)
    cached.module.eval()
    whole.module.eval()
    for task in TASKS:
        for split in ("dev", "test"):
            torch.testing.assert_close(
                cached.outputs(task, split), whole.outputs(task, split), rtol=1e-5, atol=1e-5
            )
            assert cached.examples[task][split].ids == whole.examples[task][split].ids
        rows = torch.tensor([3, 0, 3, 6])
        (ours, label), (theirs, same) = (x.output(task, rows) for x in (cached, whole))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        assert torch.equal(label, same)


def test_heads_start_as_those_of_the_whole_model_do(
    spec: StageSpec, features: dict[str, Path], sources: Any
) -> None:
    torch.manual_seed(0)
    cached = Cached(spec, sources(features=features), CPU)
    whole = Finetuned(spec.model_copy(update={"trainable": "all"}), sources(), CPU)
    for name, tensor in cached.weights().items():
        other = whole.weights()[name]
        assert tensor.shape == other.shape
        if tensor.numel() > 50:
            assert tensor.std().item() == pytest.approx(other.std().item(), rel=0.2), name


def test_only_heads_are_there_to_train(
    spec: StageSpec, features: dict[str, Path], sources: Any
) -> None:
    cached = Cached(spec, sources(features=features), CPU)
    assert cached.shared_parameters() == []
    own = [p for task in TASKS for p in cached.own_parameters(task)]
    assert {id(p) for p in own} == {id(p) for p in cached.module.parameters()}


def test_a_trained_stage_holds_the_heads_and_nothing_else(
    make_spec: Any, features: dict[str, Path], sources: Any, tmp_path: Path
) -> None:
    tasks = TASKS | {"sts": TASKS["sts"] | {"trained": False}}
    spec = make_spec(tasks, trainable="heads", epochs=2, optimiser={"lr": 0.01})
    train_stage(
        spec, 5, sources(features=features), tmp_path, title="t", device="cpu", precision="fp32"
    )
    trained = load_file(tmp_path / "model.safetensors")
    torch.manual_seed(5)
    first = Cached(spec, sources(features=features), CPU).weights()
    assert trained.keys() == first.keys()
    for name, tensor in trained.items():
        assert torch.equal(tensor, first[name]) == name.startswith("heads.sts."), name


def test_a_missing_features_file_is_named(
    spec: StageSpec, features: dict[str, Path], sources: Any
) -> None:
    features["para"].unlink()
    with pytest.raises(UserError, match=r"para/features\.safetensors: no such weights file"):
        Cached(spec, sources(features=features), CPU)
