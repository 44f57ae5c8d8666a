"""A frozen encoder: cached features, and heads trained on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from stepping import CPU

from minbert.base.errors import UserError
from minbert.spec.stage import StageSpec
from minbert.train.features import cache_features
from minbert.train.finetune import Finetuned
from minbert.train.frozen_probe import FrozenProbe

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


def test_features_have_a_row_a_sequence_and_the_same_bytes_again(
    features: dict[str, Path], backbone: Path, tokens: dict[str, Path], tmp_path: Path
) -> None:
    found = {task: load_file(path) for task, path in features.items()}
    sizes = {task: {split: len(t) for split, t in of.items()} for task, of in found.items()}
    assert sizes == {
        "sst": {"train": 11, "dev": 6, "test": 5},
        "para": {"train": 36, "dev": 16, "test": 8},
        "sts": {"train": 10, "dev": 7, "test": 5},
    }
    kinds = {(t.dtype, t.shape[1]) for of in found.values() for t in of.values()}
    assert kinds == {(torch.float32, 32)}
    again = tmp_path / "again.safetensors"
    cache_features("para", "mean", "siamese", 512, backbone, tokens["para"], again, CPU)
    assert again.read_bytes() == features["para"].read_bytes()


def test_outputs_on_features_are_the_whole_models(
    spec: StageSpec, features: dict[str, Path], sources: Any
) -> None:
    probe = FrozenProbe(spec, sources(features=features), CPU)
    whole = Finetuned(spec.model_copy(update={"trainable": "all"}), sources(), CPU)
    for name, tensor in probe.weights().items():
        other = whole.weights()[name]
        assert tensor.shape == other.shape
        if tensor.numel() > 50:  # Both start alike.
            assert tensor.std().item() == pytest.approx(other.std().item(), rel=0.2), name
    unfit = whole.module.load_state_dict(probe.weights(), strict=False)
    assert not unfit.unexpected_keys
    assert all(name.startswith("encoder.") for name in unfit.missing_keys)
    for model in (probe, whole):
        model.module.eval()
    close = {"rtol": 1e-5, "atol": 1e-5}
    for task in TASKS:
        for split in ("dev", "test"):
            torch.testing.assert_close(
                probe.outputs(task, split), whole.outputs(task, split), **close
            )
            assert probe.examples[task][split].ids == whole.examples[task][split].ids
        rows = torch.tensor([3, 0, 3, 6])
        (ours, label), (theirs, same) = (x.output(task, rows) for x in (probe, whole))
        torch.testing.assert_close(ours, theirs, **close)
        assert torch.equal(label, same)
    assert probe.shared_parameters() == []
    own = [p for task in TASKS for p in probe.own_parameters(task)]
    assert {id(p) for p in own} == {id(p) for p in probe.module.parameters()}


def test_a_trained_stage_holds_the_heads_and_nothing_else(
    make_spec: Any, features: dict[str, Path], sources: Any, run: Callable[..., Path]
) -> None:
    tasks = TASKS | {"sts": TASKS["sts"] | {"trained": False}}
    spec = make_spec(tasks, trainable="heads", epochs=2, optimiser={"lr": 0.01})
    trained = load_file(run(spec, 5, features=features) / "model.safetensors")
    torch.manual_seed(5)
    first = FrozenProbe(spec, sources(features=features), CPU).weights()
    assert trained.keys() == first.keys()
    for name, tensor in trained.items():
        assert torch.equal(tensor, first[name]) == name.startswith("heads.sts."), name


def test_a_missing_features_file_is_named(
    spec: StageSpec, features: dict[str, Path], sources: Any
) -> None:
    features["para"].unlink()
    with pytest.raises(UserError, match=r"para/features\.safetensors: no such weights file"):
        FrozenProbe(spec, sources(features=features), CPU)
