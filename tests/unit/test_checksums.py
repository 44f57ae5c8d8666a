"""Weights hold the checksum of their tensors: what was damaged on disk is refused by every reader.

A flipped bit would go unseen otherwise: the file is whole, and its numbers are numbers.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from minbert.base.errors import UserError
from minbert.commands.steps import load_job, run_job
from minbert.model.weights import CHECKSUM, checksum, load_weights, save_weights
from minbert.plan.plan import Plan
from minbert.predict.predict import predict
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
    assert told.startswith(f"{path}: is damaged") and "delete it" in told
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"model\.safetensors: not a whole safetensors file"):
            load_weights(path)


def test_the_same_weights_make_the_same_file_and_others_another_checksum(tmp_path: Path) -> None:
    """safetensors writes several entries of the header in an order that changes."""
    for name in ("one", "two"):
        save_weights(tmp_path / name, STATE)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with safe_open(tmp_path / "one", "pt") as file:
        assert file.metadata() == {CHECKSUM: checksum(dict(reversed(STATE.items())))}
    zeros = torch.zeros(4)
    states = [{"a": zeros}, {"b": zeros}, {"a": zeros.reshape(2, 2)}, {"a": zeros.int()}]
    assert len({checksum(state) for state in states}) == 4


@pytest.mark.parametrize(
    ("variant", "stage", "file"),
    [
        ("staged", "again", "start"),
        ("frozen", "main", "features.sst"),
        ("three", "main", "minbert predict"),
    ],
)
def test_every_reader_refuses_a_flipped_bit(
    variant: str, stage: str, file: str, trained_plan: Plan, root: Path
) -> None:
    """A training of what it starts from, and who reads what it left."""
    node = trained_plan.train(StageRef("one", variant, stage))
    path = node.folder(root, 0) / "model.safetensors"
    read: Callable[[], object] = partial(
        predict, root, "one/three", task="sst", sentences=["a"], device="cpu"
    )
    if file in node.needs:
        need = node.needs[file]
        path = need.node.folder(root, 0) / need.file
        shutil.rmtree(node.folder(root, 0))
        read = partial(run_job, load_job(root, "train", node.key, 0, threads=1))
    flip(path, -3, 5)  # of the last tensor
    with pytest.raises(UserError, match="is damaged") as caught:
        read()
    assert str(path) in str(caught.value)
