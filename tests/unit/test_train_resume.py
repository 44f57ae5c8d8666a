"""Interrupted runs end in the same bits as uninterrupted ones; bad states are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from stand_in import stand_in
from stepping import cached

from minbert.base.files import read_json
from minbert.spec.stage import StageSpec
from minbert.train.checkpoints import Checkpoints
from minbert.train.run import train_stage
from minbert.train.trainable import Sources

SIAMESE = {"pairing": "siamese", "features": ["u", "v"], "pooling": "max"}
TWO = {"sst": {}, "para": SIAMESE}


def paced(schedule: str, warmup: float = 0.0) -> dict[str, Any]:
    return {"lr": 1e-3, "schedule": {"name": schedule, "warmup": warmup}}


STAGES: dict[str, dict[str, Any]] = {
    "surgery, SMART, one cycle": {
        "tasks": {"sst": {}, "para": {"convolution": {}}, "sts": {}},
        "surgery": "pcgrad",
        "smart": {"weight": 2.0},
        "optimiser": paced("onecycle"),
    },
    "whole gradients": {
        "surgery": "pytorch_pcgrad",
        "shared_layers": 1,
        "shared_end": "top",
    },
    "Nash-MTL, adapters, recycled": {
        "tasks": TWO,
        "surgery": "nash_mtl",
        "sampler": {"name": "recycled", "examples": 9},
        "trainable": "adapters",
        "adapter": {"width": 3},
    },
    "uncertainty, by task": {"weighting": "uncertainty", "shared_layers": "none"},
    "random weights and surgery": {"weighting": "random", "surgery": "pcgrad"},
    "all tasks in one pass": {
        "tasks": {"sst": {}, "para": SIAMESE, "sts": {"convolution": {}}},
        "shared_layers": 1,
    },
    "sequential, layers shared in part": {
        "tasks": {"sst": {}, "sts": SIAMESE},
        "sampler": {"name": "sequential"},
        "shared_layers": 1,
        "optimiser": paced("linear", 0.2),
    },
    "tasks by temperature": {"sampler": {"name": "temperature", "temperature": 2.0}},
    "annealed": {"sampler": {"name": "annealed"}},
    "LoRA, tasks in turn": {
        "tasks": TWO,
        "sampler": {"name": "alternating"},
        "trainable": "lora",
        "lora": {"rank": 3},
    },
    "fusion, cosine": {
        "tasks": {"sts": {}},
        "trainable": "fusion",
        "fuse": ["adapted/sst", "adapted/sts"],
        "optimiser": paced("cosine", 0.2),
    },
    "cached features": {"tasks": TWO, "trainable": "heads", "optimiser": paced("constant")},
}
FULL = "surgery, SMART, one cycle"


class Interrupted(Checkpoints):
    """Asks the run to stop at one step, or dies right after, or before, a state is saved."""

    def __init__(
        self, folder: Path, step: int | None = None, every: float = 1e9, **dies: int
    ) -> None:
        super().__init__(folder, every)
        self.at_step, self.dies = step, dies

    def after_step(self, step: int, *, save: bool = False) -> None:
        if step == self.at_step:
            self.stop = 15
        super().after_step(step, save=save)

    def save(self, step: int) -> None:
        if self.dies.get("before") == step:
            raise KeyboardInterrupt
        super().save(step)
        if self.dies.get("after") == step:
            raise KeyboardInterrupt


Train = Callable[..., str]


@pytest.fixture
def stage(make_spec: Any) -> Callable[..., StageSpec]:
    """Return a function to the spec of a name in `STAGES`, or of one task."""

    def make(name: str = "", epochs: int = 2) -> StageSpec:
        chosen = STAGES[name] if name else {"tasks": ("sst",)}
        return make_spec(**{"epochs": epochs, "optimiser": {"lr": 1e-2}, **chosen})

    return make


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def needed(sources: Any, make_spec: Any, tmp_path: Path) -> Callable[[StageSpec], Sources]:
    """Return a function from a spec to the files it is trained on, made if need be."""

    def choose(spec: StageSpec) -> Sources:
        plain: Sources = sources(*spec.tasks)
        features = cached(spec, plain, tmp_path) if spec.trainable == "heads" else {}
        adapters = []
        for task in (ref.rpartition("/")[2] for ref in spec.fuse or ()):
            adapters.append(tmp_path / task / "model.safetensors")
            if not adapters[-1].exists():
                adapted = make_spec((task,), trainable="adapters", adapter={"width": 3})
                files = (sources(task), adapters[-1].parent)
                train_stage(adapted, 4, *files, title=task, device="cpu", precision="fp32")
        return replace(plain, features=features, adapters=tuple(adapters))

    return choose


@pytest.fixture
def train(needed: Callable[[StageSpec], Sources], tmp_path: Path) -> Train:
    """Return a function that trains a spec with checkpoints.

    It returns history, weights, predictions and number of steps as text, in which NaN equals NaN.
    """

    def run(spec: StageSpec, checkpoints: Checkpoints | None = None, **how: str) -> str:
        out = tmp_path / ("whole" if checkpoints is None else "cut")
        told: list[tuple[Any, ...]] = []
        more = {"listener": told.append, "checkpoints": checkpoints, "title": "run"}
        chosen = {"device": "cpu", "precision": "fp32", **how}
        train_stage(spec, 4, needed(spec), out, **chosen, **more)
        history = pq.read_table(out / "history.parquet").drop_columns(["time"]).to_pylist()
        rows = [tuple(row.values()) for row in history if "/" not in row["metric"]]
        assert [row[:6] for row in told] == rows
        predictions = pq.read_table(out / "predictions.parquet").to_pylist()
        steps = read_json(out / "run.json")["outcome"]["steps"]
        return str((history, (out / "model.safetensors").read_bytes(), predictions, steps))

    return run


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("name", "precision"),
    [*((name, "fp32") for name in STAGES), (FULL, "bf16"), ("all tasks in one pass", "bf16")],
)
def test_stopped_anywhere_it_ends_in_the_same_bits(
    name: str, precision: str, stage: Callable[..., StageSpec], train: Train, work: Path
) -> None:
    spec = stage(name)
    expected = train(spec, precision=precision)
    steps = read_json(work.parent / "whole" / "run.json")["outcome"]["steps"]
    # In the first epoch, killed between the two, and in the second one.
    for cut in ({"step": 1}, {"after": steps // 2}, {"step": steps // 2 + 1}):
        with pytest.raises((SystemExit, KeyboardInterrupt)):
            train(spec, Interrupted(work, **cut), precision=precision)
        assert len(list(work.glob("state-*.pt"))) == 1
    assert train(spec, Checkpoints(work), precision=precision) == expected
    assert not files(work), "a finished run leaves no state"


ON_DEVICE = [FULL, "uncertainty, by task", "cached features"]
"""Stages whose states have tensors on the device, of each kind."""


@pytest.mark.parametrize("name", ON_DEVICE)
def test_on_an_accelerator_it_goes_on_in_mid_epoch(
    name: str,
    stage: Callable[..., StageSpec],
    train: Train,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = stage(name)
    with stand_in(monkeypatch):
        expected = train(spec, device="mps")
        with pytest.raises(SystemExit):
            train(spec, Interrupted(work, 2), device="mps")
        # Every step saves a state, so that some follow another one within an epoch.
        assert train(spec, Checkpoints(work, every=0.0), device="mps") == expected


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


BEST = "best-1.safetensors"
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit": (flip, "damaged, or from another device"),
    "a flipped bit in the best epoch's weights": (
        lambda path: flip(path.with_name(BEST)),
        f"{BEST}: is damaged",
    ),
    "another device": (
        lambda path: torch.save({**torch.load(path), "computed_on": "cuda, bf16"}, path),
        "damaged, or from another device or precision",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bad_state_is_refused_and_training_starts_from_scratch(
    damage: str,
    stage: Callable[..., StageSpec],
    train: Train,
    work: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    harm, message = DAMAGES[damage]
    expected = train(stage())
    with pytest.raises(SystemExit):
        train(stage(), Interrupted(work, 4))
    assert files(work) == [BEST, "state-4.pt"]
    harm(work / "state-4.pt")
    capsys.readouterr()
    assert train(stage(), Checkpoints(work)) == expected
    told = capsys.readouterr().err
    assert "starting from scratch: " in told and message in told
    assert not files(work)


def test_an_epoch_that_no_state_names_yet_takes_nothing_from_the_one_before(
    train: Train, stage: Callable[..., StageSpec], work: Path, scored: Callable[..., None]
) -> None:
    """A run that dies after a better epoch's weights are written, before its state is."""
    spec = stage(epochs=3)
    scored(0.1, 0.2, 0.15)
    expected = train(spec)
    scored(0.1, 0.2)
    with pytest.raises(KeyboardInterrupt):
        train(spec, Interrupted(work, before=6))
    assert files(work) == ["best-1.safetensors", "best-2.safetensors", "state-3.pt"]
    scored(0.2, 0.15)
    assert train(spec, Checkpoints(work)) == expected
