"""Heads that go on from another task's head of the earlier stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import token_rows
from safetensors.torch import load_file, save_file
from torch import Tensor

from minbert.spec.stage import StageSpec
from minbert.train.finetune import Finetuned
from minbert.train.run import train_stage


def make(tasks: dict[str, dict[str, Any]], **stage: Any) -> StageSpec:
    common = {"loss": "cross_entropy", "batch_size": 4}
    chosen = {task: {**common, **how} for task, how in tasks.items()}
    return StageSpec.model_validate({"epochs": 1, "tasks": chosen, **stage})


@pytest.fixture
def lmrd(sources: Any, write_tokens: Any, tmp_path: Path) -> Path:
    """The weights of a stage that trained LMRD, with an SST head beside it."""
    rows = [row for split in ("train", "dev") for row in token_rows("lmrd", split, 8)]
    path = write_tokens(tmp_path / "lmrd" / "tokens.parquet", rows)
    spec = make({"lmrd": {}, "sst": {"trained": False}}, optimiser={"lr": 0.01})
    files = sources("sst", instead={"lmrd": path})
    train_stage(spec, 0, files, tmp_path / "first", title="first", device="cpu", precision="fp32")
    return tmp_path / "first" / "model.safetensors"


def started(sources: Any, spec: StageSpec, start: Path | None) -> dict[str, Tensor]:
    """Return the weights that a stage begins with; LMRD's tokens are SST's."""
    files = sources("sst", start=start)
    files.tokens.update(dict.fromkeys(spec.tasks, files.tokens["sst"]))
    torch.manual_seed(9)
    return Finetuned(spec, files, torch.device("cpu")).weights()


def head(weights: dict[str, Tensor], task: str) -> dict[str, Tensor]:
    before = f"heads.{task}."
    return {n.removeprefix(before): t for n, t in weights.items() if n.startswith(before)}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return bool(a) and a.keys() == b.keys() and all(torch.equal(t, b[n]) for n, t in a.items())


def test_a_head_goes_on_from_another_tasks(sources: Any, lmrd: Path, tmp_path: Path) -> None:
    def sst(start: Path | None, **how: Any) -> dict[str, Tensor]:
        spec = make({"sst": how}, start="backbone" if start is None else "earlier")
        return head(started(sources, spec, start), "sst")

    before = load_file(lmrd)
    alone = tmp_path / "alone.safetensors"
    save_file({n: t for n, t in before.items() if not n.startswith("heads.sst.")}, alone)
    for file in (lmrd, alone):
        assert same(sst(file, head_from="lmrd"), head(before, "lmrd"))
    # Without it, the head is that of its own task, or new.
    assert same(sst(lmrd), head(before, "sst")) and same(sst(alone), sst(None))
    assert not same(sst(None), head(before, "lmrd")) and not same(sst(lmrd), head(before, "lmrd"))
    assert same(sst(lmrd, head_from="sst"), head(before, "sst"))


def test_a_head_of_another_shape_starts_anew(sources: Any, lmrd: Path) -> None:
    deep = {"head": {"depth": 2, "width": 5}}  # its first layer has the shape of LMRD's only one
    found = started(sources, make({"sst": {**deep, "head_from": "lmrd"}}, start="earlier"), lmrd)
    assert same(head(found, "sst"), head(started(sources, make({"sst": deep}), None), "sst"))


def test_two_heads_change_places(sources: Any, lmrd: Path) -> None:
    tasks = {"sst": {"head_from": "lmrd"}, "lmrd": {"head_from": "sst"}}
    found, before = started(sources, make(tasks, start="earlier"), lmrd), load_file(lmrd)
    assert same(head(found, "sst"), head(before, "lmrd"))
    assert same(head(found, "lmrd"), head(before, "sst"))


def test_the_encoder_goes_on_too(sources: Any, lmrd: Path) -> None:
    found = started(sources, make({"sst": {"head_from": "lmrd"}}, start="earlier"), lmrd)
    encoder = {n: t for n, t in load_file(lmrd).items() if n.startswith("encoder.")}
    assert same(encoder, {n: t for n, t in found.items() if n.startswith("encoder.")})
