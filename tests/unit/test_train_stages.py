"""A stage that starts from an earlier stage's weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from minbert.base.errors import UserError
from minbert.model.weights import save_weights
from minbert.train.finetune import Finetuned
from minbert.train.run import train_stage

CPU = torch.device("cpu")


@pytest.fixture
def first(make_spec: Any, sources: Any, tmp_path: Path) -> Path:
    """The weights of a stage that trained SST alone."""
    spec = make_spec(("sst",), optimiser={"lr": 0.01})
    train_stage(
        spec, 0, sources("sst"), tmp_path / "first", title="first", device="cpu", precision="fp32"
    )
    return tmp_path / "first" / "model.safetensors"


def started(spec: Any, sources: Any, start: Path | None) -> dict[str, torch.Tensor]:
    torch.manual_seed(9)
    return Finetuned(spec, sources(*spec.tasks, start=start), CPU).weights()


def test_encoder_and_matching_heads_are_taken_over(
    make_spec: Any, sources: Any, first: Path
) -> None:
    spec = make_spec(("sst", "sts"))
    before, fresh, found = (
        load_file(first),
        started(spec, sources, None),
        started(spec, sources, first),
    )
    for name, tensor in found.items():
        expected = fresh if name.startswith("heads.sts.") else before
        assert torch.equal(tensor, expected[name]), name
    assert not torch.equal(
        fresh["encoder.shared.layers.0.attention.qkv.weight"],
        found["encoder.shared.layers.0.attention.qkv.weight"],
    )


def test_another_task_takes_over_the_encoder_alone(
    make_spec: Any, sources: Any, first: Path
) -> None:
    spec = make_spec(("para",))
    before, fresh, found = (
        load_file(first),
        started(spec, sources, None),
        started(spec, sources, first),
    )
    for name, tensor in found.items():
        assert torch.equal(tensor, (fresh if name.startswith("heads.") else before)[name]), name


def test_training_goes_on_from_there(
    make_spec: Any, sources: Any, first: Path, tmp_path: Path
) -> None:
    spec = make_spec(("sst",), optimiser={"lr": 1e-12})
    files = sources("sst", start=first)
    train_stage(spec, 1, files, tmp_path / "second", title="second", device="cpu", precision="fp32")
    before, after = load_file(first), load_file(tmp_path / "second" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.allclose(before[name], after[name], atol=1e-9) for name in before)


def test_part_of_a_head_is_not_taken_over(make_spec: Any, sources: Any, tmp_path: Path) -> None:
    # The first layers of a head of two and of one of three have the same shape.
    two = make_spec({"sst": {"head": {"depth": 2}}})
    torch.manual_seed(0)
    save_file(Finetuned(two, sources("sst"), CPU).weights(), tmp_path / "two.safetensors")
    three = make_spec({"sst": {"head": {"depth": 3}}})
    fresh, found = (started(three, sources, s) for s in (None, tmp_path / "two.safetensors"))
    assert all(torch.equal(found[name], fresh[name]) for name in found if name.startswith("heads."))


def test_a_stage_of_heads_alone_hands_on_its_heads(
    make_spec: Any, sources: Any, first: Path, tmp_path: Path, backbone: Path
) -> None:
    heads = {name: t for name, t in load_file(first).items() if name.startswith("heads.")}
    save_file(heads, tmp_path / "heads.safetensors")
    found = started(make_spec(("sst",)), sources, tmp_path / "heads.safetensors")
    pretrained = load_file(backbone / "model.safetensors")
    for name, tensor in found.items():
        expected = heads.get(name, pretrained.get(name.removeprefix("encoder.shared.")))
        assert expected is not None and torch.equal(tensor, expected), name


def test_each_tasks_own_layers_start_from_the_one_encoder(
    make_spec: Any, sources: Any, first: Path
) -> None:
    before = load_file(first)
    found = started(make_spec(("sst", "sts"), shared_layers=1), sources, first)
    name = "layers.1.attention.qkv.weight"
    for task in ("sst", "sts"):
        assert torch.equal(found[f"encoder.own.{task}.{name}"], before[f"encoder.shared.{name}"])


def test_other_sharing_is_refused(make_spec: Any, sources: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    apart = Finetuned(make_spec(("sst", "sts"), shared_layers=1), sources("sst", "sts"), CPU)
    save_weights(tmp_path / "model.safetensors", apart.weights())
    with pytest.raises(
        UserError, match=r"model\.safetensors: does not hold the encoder's .*shared\.layers\.1"
    ):
        started(make_spec(("sst", "sts")), sources, tmp_path / "model.safetensors")


def test_a_damaged_file_is_named(make_spec: Any, sources: Any, tmp_path: Path) -> None:
    broken = tmp_path / "model.safetensors"
    broken.write_bytes(b"no weights")
    with pytest.raises(UserError, match=r"model\.safetensors: not a whole safetensors file"):
        Finetuned(make_spec(("sst",)), sources("sst", start=broken), CPU)
