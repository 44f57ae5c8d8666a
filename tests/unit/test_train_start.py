"""What a stage starts from: earlier weights, another task's head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from stepping import CPU
from torch import Tensor

from minbert.model.weights import load_weights, save_weights
from minbert.train.trainable import Finetuned

Weights = dict[str, Tensor]
Started = Callable[..., Weights]


@pytest.fixture
def started(make_spec: Any, sources: Any, tokens: dict[str, Path], tmp_path: Path) -> Started:
    """Return a function to the weights that a stage begins with after one that saved `earlier`.

    LMRD's tokens are SST's.
    """

    def start(tasks: Any, earlier: Weights | None = None, seed: int = 9, **stage: Any) -> Weights:
        file, spec = None, make_spec(tasks, start="earlier" if earlier else "backbone", **stage)
        if earlier:
            save_weights(file := tmp_path / "model.safetensors", earlier)
        given = sources(*spec.tasks, start=file, instead={"lmrd": tokens["sst"]})
        torch.manual_seed(seed)
        return Finetuned(spec, given, CPU).weights

    return start


@pytest.fixture
def before(started: Started) -> Weights:
    """The weights of a stage of SST and LMRD, whose encoder has moved."""
    weights = started(("sst", "lmrd"), seed=1)
    return {n: t + 0.5 if n.startswith("encoder.") else t for n, t in weights.items()}


def part(weights: Weights, prefix: str) -> Weights:
    return {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}


def head(weights: Weights, task: str) -> Weights:
    return part(weights, f"heads.{task}.")


def same(a: Weights, b: Weights) -> bool:
    return bool(a) and a.keys() == b.keys() and all(torch.equal(t, b[n]) for n, t in a.items())


def test_encoder_and_matching_heads_are_taken_over(
    started: Started, before: Weights, backbone: Path
) -> None:
    fresh, found = started(("sst", "sts")), started(("sst", "sts"), before)
    for name, tensor in found.items():
        old = name.startswith(("encoder.", "heads.sst."))
        assert torch.equal(tensor, (before if old else fresh)[name]), name
    # A stage of heads alone has no encoder to hand on.
    found = started(("sst",), {n: t for n, t in before.items() if n.startswith("heads.")})
    assert same(part(found, "encoder.shared."), load_weights(backbone / "model.safetensors"))
    assert same(head(found, "sst"), head(before, "sst"))


@pytest.mark.parametrize(
    ("kind", "earlier", "later"),
    [
        # The first layers of a head of two and of one of three have the same shape.
        ("heads", {"head": {"depth": 2}}, {"head": {"depth": 3}}),
        # A bias fits whatever the kernel.
        ("convolutions", {"convolution": {"kernel": 3}}, {"convolution": {"kernel": 5}}),
    ],
)
def test_a_part_is_taken_over_whole_or_not_at_all(
    kind: str, earlier: Any, later: Any, started: Started
) -> None:
    before = started({"sst": earlier}, seed=1)
    for how, expected in ((earlier, before), (later, started({"sst": later}))):
        found = started({"sst": how}, before)
        assert same(part(found, f"{kind}."), part(expected, f"{kind}."))


def test_each_tasks_own_layers_start_from_the_one_encoder(
    started: Started, before: Weights
) -> None:
    found = started(("sst", "sts"), before, shared_layers=1)
    name = "layers.1.attention.qkv.weight"
    for task in ("sst", "sts"):
        assert torch.equal(found[f"encoder.own.{task}.{name}"], before[f"encoder.shared.{name}"])


def test_a_head_goes_on_from_another_tasks(started: Started, before: Weights) -> None:
    def sst(earlier: Weights | None, **how: Any) -> Weights:
        return head(started({"sst": how}, earlier), "sst")

    alone = {n: t for n, t in before.items() if not n.startswith("heads.sst.")}
    for earlier in (before, alone):
        assert same(sst(earlier, init_head_from="lmrd"), head(before, "lmrd"))
    # Without it, the head is that of its own task, or new.
    assert same(sst(before), head(before, "sst")) and same(sst(alone), sst(None))
    # One of another shape is new; its first layer has the shape of LMRD's only one.
    deep = {"head": {"depth": 2}}
    assert same(sst(before, **deep, init_head_from="lmrd"), sst(None, **deep))
