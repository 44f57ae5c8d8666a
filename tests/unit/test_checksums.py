"""Weights hold the checksum of their tensors: what was damaged on disk is refused by every reader.

A flipped bit would go unseen otherwise: the file is whole, and its numbers are numbers.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from minbert.base.errors import UserError
from minbert.commands.steps import load_job, run_job
from minbert.model.weights import CHECKSUM, checksum, load_weights, save_weights
from minbert.plan.plan import Plan
from minbert.predict.predict import predict
from minbert.predict.submit import submit
from minbert.spec.resolve import StageRef

STATE = {
    "b.weight": torch.linspace(-1, 1, 15).reshape(3, 5),
    "a": torch.tensor(0.5),
    "half": torch.linspace(0, 2, 4, dtype=torch.bfloat16),
    "counts": torch.arange(3),
}


def flip(path: Path, byte: int, bit: int = 0) -> None:
    """Flip one bit; a negative `byte` counts from the end."""
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << bit
    path.write_bytes(bytes(content))


def same(found: dict[str, Tensor]) -> bool:
    return found.keys() == STATE.keys() and all(
        found[n].dtype == t.dtype and torch.equal(found[n], t) for n, t in STATE.items()
    )


def test_no_flipped_bit_changes_what_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_weights(path, STATE)
    whole = path.read_bytes()
    assert same(load_weights(path))
    refused = 0
    for byte in range(len(whole)):
        path.write_bytes(whole)
        flip(path, byte, byte % 8)
        try:
            # In the header there are bits without a meaning: the padding, the entry's own name.
            assert same(load_weights(path)), byte
        except UserError as error:
            assert str(path) in (told := str(error))
            refused += 1
    assert refused > 0.9 * len(whole)
    assert told.startswith(f"{path}: is damaged") and "delete it and run that again" in told
    assert f"expected {checksum(STATE)}" in told
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"model\.safetensors: not a whole safetensors file"):
            load_weights(path)


def test_names_types_and_shapes_are_in_the_checksum() -> None:
    found = {
        checksum(state)
        for state in (
            {"a": torch.zeros(4)},
            {"b": torch.zeros(4)},
            {"a": torch.zeros(2, 2)},
            {"a": torch.zeros(4, dtype=torch.int32)},
            {"a": torch.zeros(2), "b": torch.zeros(2)},
        )
    }
    assert len(found) == 5
    assert checksum(dict(reversed(STATE.items()))) == checksum(STATE)


def test_the_same_weights_make_the_same_file(tmp_path: Path) -> None:
    """safetensors writes several entries of the header in an order that changes."""
    for name in ("one", "two"):
        save_weights(tmp_path / name, STATE)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with safe_open(tmp_path / "one", "pt") as file:
        assert file.metadata() == {CHECKSUM: checksum(STATE)}


def test_a_file_from_elsewhere_needs_no_checksum(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    assert same(load_weights(tmp_path / "theirs.safetensors"))


Harm = Callable[[Plan, Path], tuple[Path, Callable[[], object]]]


def train(plan: Plan, root: Path, variant: str, stage: str = "main") -> Callable[[], object]:
    """Return what trains a stage once more."""
    key = plan.train(StageRef("one", variant, stage)).key
    shutil.rmtree(root / "store" / "train" / key)
    return lambda: run_job(load_job(root, "train", key, 0, threads=1))


def need(plan: Plan, root: Path, variant: str, name: str, stage: str = "main") -> Path:
    """Return the file that a stage needs under `name`."""
    return plan.train(StageRef("one", variant, stage)).needs[name].path(root, 0)


def weights(plan: Plan, root: Path, variant: str, file: str = "model.safetensors") -> Path:
    """Return a file that the training of a variant left."""
    return plan.train(StageRef("one", variant, "main")).folder(root, 0) / file


READERS: dict[str, Harm] = {
    "a stage that starts from another": lambda plan, root: (
        need(plan, root, "staged", "start", "again"),
        train(plan, root, "staged", "again"),
    ),
    "a fusion of adapters": lambda plan, root: (
        need(plan, root, "fused", "adapter.1"),
        train(plan, root, "fused"),
    ),
    "heads on cached features": lambda plan, root: (
        need(plan, root, "frozen", "features.sst"),
        train(plan, root, "frozen"),
    ),
    "a stage that starts from the backbone": lambda plan, root: (
        need(plan, root, "three", "backbone.model.safetensors"),
        train(plan, root, "three"),
    ),
    "minbert predict": lambda plan, root: (
        weights(plan, root, "three"),
        lambda: predict(root, "one/three", task="sst", sentences=["a"], device="cpu"),
    ),
    "minbert submit": lambda plan, root: (
        weights(plan, root, "three", "predictions.parquet"),
        lambda: submit(root, "one/three"),
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_a_flipped_bit(
    reader: str, trained_plan: Plan, tmp_path: Path
) -> None:
    root = tmp_path / "results"
    shutil.copytree(trained_plan.root, root)
    path, read = READERS[reader](trained_plan, root)
    # In a table the first page's data, in weights the last tensor's.
    flip(path, 60 if path.suffix == ".parquet" else -3, 5)
    with pytest.raises(UserError, match="is damaged") as caught:
        read()
    assert str(path) in str(caught.value)
