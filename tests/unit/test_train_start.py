"""What a stage starts from: earlier weights, another task's head; and what a start imports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import token_rows
from safetensors.torch import load_file, save_file
from stepping import CPU
from torch import Tensor

from minbert.base.errors import UserError
from minbert.model.weights import save_weights
from minbert.spec.stage import StageSpec
from minbert.train.finetune import Finetuned

Weights = dict[str, Tensor]


@pytest.fixture
def first(make_spec: Any, run: Callable[..., Path]) -> Path:
    """The weights of a stage that trained SST alone."""
    return run(make_spec(("sst",), optimiser={"lr": 0.01}), name="first") / "model.safetensors"


@pytest.fixture
def started(sources: Any, tokens: dict[str, Path]) -> Callable[..., Weights]:
    """Return a function from a spec and a file to the weights that the stage begins with.

    LMRD's tokens are SST's.
    """

    def start(spec: StageSpec, file: Path | None = None, seed: int = 9) -> Weights:
        given = sources(*spec.tasks, start=file, instead={"lmrd": tokens["sst"]})
        torch.manual_seed(seed)
        return Finetuned(spec, given, CPU).weights()

    return start


def part(weights: Weights, prefix: str) -> Weights:
    return {n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)}


def head(weights: Weights, task: str) -> Weights:
    return part(weights, f"heads.{task}.")


def same(a: Weights, b: Weights) -> bool:
    return bool(a) and a.keys() == b.keys() and all(torch.equal(t, b[n]) for n, t in a.items())


@pytest.mark.parametrize(("tasks", "kept"), [(("sst", "sts"), "heads.sst."), (("para",), "none")])
def test_encoder_and_matching_heads_are_taken_over(
    tasks: tuple[str, ...], kept: str, make_spec: Any, started: Any, first: Path
) -> None:
    spec = make_spec(tasks)
    before, fresh, found = load_file(first), started(spec), started(spec, first)
    for name, tensor in found.items():
        old = name.startswith(("encoder.", kept))
        assert torch.equal(tensor, (before if old else fresh)[name]), name
    moved = "encoder.shared.layers.0.attention.qkv.weight"
    assert not torch.equal(fresh[moved], found[moved])


@pytest.mark.parametrize(
    ("kind", "earlier", "later"),
    [
        # The first layers of a head of two and of one of three have the same shape.
        ("heads", {"head": {"depth": 2}}, {"head": {"depth": 3}}),
        ("heads", {"head": {"depth": 3}}, {"head": {"depth": 2}}),
        # A bias fits whatever the kernel.
        ("convolutions", {"convolution": {"kernel": 3}}, {"convolution": {"kernel": 5}}),
    ],
)
def test_a_part_is_taken_over_whole_or_not_at_all(
    kind: str, earlier: Any, later: Any, make_spec: Any, started: Any, tmp_path: Path
) -> None:
    file = tmp_path / "earlier.safetensors"
    before = started(make_spec({"sst": earlier}), seed=1)
    save_file(before, file)
    for spec, expected in (
        (make_spec({"sst": earlier}), before),
        (make_spec({"sst": later}), None),
    ):
        found, fresh = started(spec, file), started(spec)
        assert same(part(found, f"{kind}."), part(expected or fresh, f"{kind}."))
        assert not same(part(before, f"{kind}."), part(fresh, f"{kind}."))


def test_a_stage_of_heads_alone_hands_on_its_heads(
    make_spec: Any, started: Any, first: Path, tmp_path: Path, backbone: Path
) -> None:
    heads = {name: t for name, t in load_file(first).items() if name.startswith("heads.")}
    save_file(heads, tmp_path / "heads.safetensors")
    found = started(make_spec(("sst",)), tmp_path / "heads.safetensors")
    assert same(part(found, "encoder.shared."), load_file(backbone / "model.safetensors"))
    assert same(part(found, "heads."), part(heads, "heads."))


def test_each_tasks_own_layers_start_from_the_one_encoder(
    make_spec: Any, started: Any, first: Path
) -> None:
    before = load_file(first)
    found = started(make_spec(("sst", "sts"), shared_layers=1), first)
    name = "layers.1.attention.qkv.weight"
    for task in ("sst", "sts"):
        assert torch.equal(found[f"encoder.own.{task}.{name}"], before[f"encoder.shared.{name}"])


def test_other_sharing_and_a_damaged_file_are_refused(
    make_spec: Any, started: Any, tmp_path: Path
) -> None:
    file, spec = tmp_path / "model.safetensors", make_spec(("sst", "sts"))
    save_weights(file, started(make_spec(("sst", "sts"), shared_layers=1)))
    message = r"model\.safetensors: does not hold the encoder's .*shared\.layers\.1"
    with pytest.raises(UserError, match=message):
        started(spec, file)
    file.write_bytes(b"no weights")
    with pytest.raises(UserError, match=r"model\.safetensors: not a whole safetensors file"):
        started(spec, file)


def stage(tasks: dict[str, dict[str, Any]], **stage: Any) -> StageSpec:
    common = {"loss": "cross_entropy", "batch_size": 4}
    chosen = {task: {**common, **how} for task, how in tasks.items()}
    return StageSpec.model_validate({"epochs": 1, **stage, "tasks": chosen})


@pytest.fixture
def lmrd(run: Callable[..., Path], write_tokens: Any, tmp_path: Path) -> Path:
    """The weights of a stage that trained LMRD, with an SST head beside it."""
    rows = [row for split in ("train", "dev") for row in token_rows("lmrd", split, 8)]
    path = write_tokens(tmp_path / "lmrd" / "tokens.parquet", rows)
    spec = stage({"lmrd": {}, "sst": {"trained": False}}, optimiser={"lr": 0.01})
    return run(spec, name="reviews", instead={"lmrd": path}) / "model.safetensors"


def test_a_head_goes_on_from_another_tasks(started: Any, lmrd: Path, tmp_path: Path) -> None:
    def sst(file: Path | None, **how: Any) -> Weights:
        spec = stage({"sst": how}, start="backbone" if file is None else "earlier")
        return head(started(spec, file), "sst")

    before = load_file(lmrd)
    alone = tmp_path / "alone.safetensors"
    save_file({n: t for n, t in before.items() if not n.startswith("heads.sst.")}, alone)
    for file in (lmrd, alone):
        assert same(sst(file, init_head_from="lmrd"), head(before, "lmrd"))
    # Without it, the head is that of its own task, or new.
    assert same(sst(lmrd), head(before, "sst")) and same(sst(alone), sst(None))
    assert not same(sst(None), head(before, "lmrd")) and not same(sst(lmrd), head(before, "lmrd"))
    assert same(sst(lmrd, init_head_from="sst"), head(before, "sst"))
    # One of another shape is new; its first layer has the shape of LMRD's only one.
    deep = {"head": {"depth": 2, "width": 5}}
    assert same(sst(lmrd, **deep, init_head_from="lmrd"), sst(None, **deep))


def test_two_heads_change_places_and_the_encoder_goes_on(started: Any, lmrd: Path) -> None:
    tasks = {"sst": {"init_head_from": "lmrd"}, "lmrd": {"init_head_from": "sst"}}
    found, before = started(stage(tasks, start="earlier"), lmrd), load_file(lmrd)
    assert same(head(found, "sst"), head(before, "lmrd"))
    assert same(head(found, "lmrd"), head(before, "sst"))
    assert same(part(found, "encoder."), part(before, "encoder."))


JOB = """
import json, sys
from pathlib import Path
import torch
from minbert.spec.stage import StageSpec
from minbert.train.checkpoints import Checkpoints
from minbert.train.run import train_stage
from minbert.train.trainable import Sources

spec, backbone, tokens, out = json.loads(sys.argv[1])
sources = Sources(Path(backbone), {"sst": Path(tokens)}, {})
spec = StageSpec.model_validate(spec)
how = {"device": "cpu", "precision": "fp32", "checkpoints": Checkpoints(Path(out), "run", 0.0)}
train_stage(spec, 0, sources, Path(out), title="run", **how)
print(json.dumps(sorted(sys.modules)))
"""
COSTLY = {
    *("torch._dynamo", "torch._inductor", "sympy"),
    *("pyarrow.dataset", "mlflow", "matplotlib", "transformers"),
}


def test_a_training_job_imports_nothing_costly(
    backbone: Path, tokens: dict[str, Path], make_spec: Any, tmp_path: Path
) -> None:
    spec = make_spec(("sst",)).model_dump(mode="json")
    given = json.dumps([spec, str(backbone), str(tokens["sst"]), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", JOB, given], check=True, text=True, stdout=subprocess.PIPE
    )
    assert COSTLY & set(json.loads(done.stdout)) == set()
