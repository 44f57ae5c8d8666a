"""Interrupted runs end in the same bits as uninterrupted ones; bad states are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from stand_in import stand_in

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json
from minbert.engine.checkpoints import Checkpoints
from minbert.spec.parts import PARTS, load_part
from minbert.spec.stage import StageSpec
from minbert.train.features import cache_features
from minbert.train.learner import Sources
from minbert.train.run import train_stage

IDENTITY = "key seed 4"
SIAMESE = {"pairing": "siamese", "features": ["u", "v"], "pooling": "max"}
STAGES: dict[str, dict[str, Any]] = {
    "surgery, SMART, one cycle": {
        "tasks": {"sst": {}, "para": {"convolution": {}}, "sts": {}},
        "surgery": "pcgrad",
        "smart": {"weight": 2.0},
        "optimiser": {"lr": 1e-3, "schedule": {"name": "onecycle"}},
    },
    "whole gradients": {
        "surgery": "pytorch_pcgrad",
        "shared_layers": 1,
        "shared_end": "top",
        "optimiser": {"lr": 1e-3},
    },
    "GradVac": {"surgery": "gradvac", "optimiser": {"lr": 1e-3}},
    "Nash-MTL": {"surgery": "nash_mtl", "optimiser": {"lr": 1e-3}},
    "PCD": {"surgery": "pcd", "optimiser": {"lr": 1e-3}},
    "uncertainty": {"weighting": "uncertainty", "optimiser": {"lr": 1e-2}},
    "a dynamic average": {"weighting": "dynamic_average", "optimiser": {"lr": 1e-2}},
    "a geometric mean, by task": {
        "weighting": "geometric_mean",
        "shared_layers": "none",
        "optimiser": {"lr": 1e-2},
    },
    "random weights and surgery": {
        "weighting": "random",
        "surgery": "random",
        "optimiser": {"lr": 1e-2},
    },
    "all tasks in one pass": {
        "tasks": {"sst": {}, "para": SIAMESE, "sts": {"convolution": {}}},
        "shared_layers": 1,
        "optimiser": {"lr": 1e-3},
    },
    "sequential, layers shared in part": {
        "tasks": {"sst": {}, "sts": SIAMESE},
        "sampler": {"name": "sequential"},
        "shared_layers": 1,
        "optimiser": {"lr": 1e-3, "schedule": {"name": "linear", "warmup": 0.2}},
    },
    "tasks in turn": {"sampler": {"name": "alternating"}, "optimiser": {"lr": 1e-3}},
    "tasks by temperature": {
        "sampler": {"name": "temperature", "temperature": 2.0},
        "optimiser": {"lr": 1e-3},
    },
    "annealed": {"sampler": {"name": "annealed"}, "optimiser": {"lr": 1e-3}},
    "adapters, recycled": {
        "tasks": {"sst": {}, "para": SIAMESE},
        "sampler": {"name": "recycled", "examples": 9},
        "trainable": "adapters",
        "adapter": {"width": 3},
        "optimiser": {"lr": 1e-2},
    },
    "LoRA": {
        "tasks": {"sst": {}, "para": SIAMESE},
        "trainable": "lora",
        "lora": {"rank": 3},
        "optimiser": {"lr": 1e-2},
    },
    "fusion, cosine": {
        "tasks": {"sts": {}},
        "trainable": "fusion",
        "fuse": ["adapted/sst", "adapted/sts"],
        "optimiser": {"lr": 1e-2, "schedule": {"name": "cosine", "warmup": 0.2}},
    },
    "cached features": {
        "tasks": {"sst": {}, "para": SIAMESE},
        "trainable": "heads",
        "optimiser": {"lr": 1e-2, "schedule": {"name": "constant"}},
    },
}


class Interrupted(Checkpoints):
    """Asks the run to stop at one step, or dies right after one saved epoch."""

    def __init__(self, folder: Path, step: int | None, epoch: int | None) -> None:
        super().__init__(folder, IDENTITY, every=1e9)
        self.at_step, self.at_epoch = step, epoch

    def after_step(self, step: int) -> None:
        if step == self.at_step:
            self.stop = 15
        super().after_step(step)

    def save(self, step: int) -> None:
        super().save(step)
        position = self._parts["position"].state()
        if position["epoch"] - 1 == self.at_epoch and position["done"] == 0:
            raise KeyboardInterrupt


Results = tuple[list[dict[str, Any]], bytes, list[Any], int]
Train = Callable[..., Results]


@pytest.fixture
def needed(sources: Any, make_spec: Any, tmp_path: Path) -> Callable[[StageSpec], Sources]:
    """Return a function from a spec to the files it is trained on, made if need be."""

    def choose(spec: StageSpec) -> Sources:
        plain: Sources = sources(*spec.tasks)
        features, adapters = {}, []
        if spec.trainable == "heads":
            for task, how in spec.tasks.items():
                features[task] = tmp_path / f"{task}.safetensors"
                files = (plain.backbone, plain.tokens[task], features[task])
                device = torch.device("cpu")
                cache_features(task, how.pooling, how.pairing, spec.max_length, *files, device)
        for task in (ref.rpartition("/")[2] for ref in spec.fuse or ()):
            adapters.append(tmp_path / task / "model.safetensors")
            if not adapters[-1].exists():
                adapters[-1].parent.mkdir()
                adapted = make_spec((task,), trainable="adapters", adapter={"width": 3})
                files = (sources(task), adapters[-1].parent)
                train_stage(adapted, 4, *files, title=task, device="cpu", precision="fp32")
        return replace(plain, features=features, adapters=tuple(adapters))

    return choose


@pytest.fixture
def train(needed: Callable[[StageSpec], Sources], tmp_path: Path) -> Train:
    """Return a function that trains a spec with checkpoints into a folder of its own."""

    def run(
        spec: StageSpec,
        name: str,
        checkpoints: Checkpoints | None = None,
        precision: str = "fp32",
        device: str = "cpu",
    ) -> Results:
        out = tmp_path / name
        out.mkdir(exist_ok=True)
        told: list[tuple[Any, ...]] = []
        train_stage(
            spec,
            4,
            needed(spec),
            out,
            title=name,
            device=device,
            precision=precision,
            listener=told.append,
            checkpoints=checkpoints,
        )
        history = pq.read_table(out / "history.parquet").drop_columns(["time"]).to_pylist()
        rows = [tuple(row.values()) for row in history if "/" not in row["metric"]]
        assert [row[:6] for row in told] == rows
        predictions = pq.read_table(out / "predictions.parquet").to_pylist()
        steps = json.loads((out / "run.json").read_text("utf-8"))["outcome"]["steps"]
        return history, (out / "model.safetensors").read_bytes(), predictions, steps

    return run


def ordinary(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "work", IDENTITY, every=1e9)


def whole(results: Results) -> str:
    """Return results so that NaN equals itself."""
    return str(results)


def draws_or_remembers(surgery: str) -> bool:
    method, draw = load_part("surgery", surgery)(3), torch.Generator()
    before = draw.get_state()
    method(torch.eye(3), draw)
    return bool(method.state()) or not torch.equal(draw.get_state(), before)


def test_each_kind_of_part_that_has_a_state_is_among_the_stages(make_spec: Any) -> None:
    """What draws, counts or adapts as it trains: a new one of these has to be tried here too."""
    specs = [make_spec(**stage) for stage in STAGES.values()]
    tried = {
        "sampler": {spec.sampler.name for spec in specs},
        "trainable": {spec.trainable for spec in specs},
        "schedule": {spec.optimiser.schedule.name for spec in specs},
        "surgery": {spec.surgery for spec in specs if spec.surgery},
        "weighting": {spec.weighting for spec in specs if spec.weighting},
        "penalty": {"smart" for spec in specs if spec.smart},
    }
    known = {kind: set(PARTS[kind]) for kind in tried}
    known["surgery"] = set(filter(draws_or_remembers, PARTS["surgery"]))
    assert tried == known


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *((name, "fp32") for name in STAGES),
        ("surgery, SMART, one cycle", "bf16"),
        ("all tasks in one pass", "bf16"),
    ],
)
def test_stopped_anywhere_it_ends_in_the_same_bits(
    name: str, precision: str, make_spec: Any, train: Train, tmp_path: Path
) -> None:
    spec = make_spec(epochs=3, **STAGES[name])
    expected = whole(train(spec, "uninterrupted", precision=precision))
    steps = json.loads((tmp_path / "uninterrupted" / "run.json").read_text())["outcome"]["steps"]
    cuts = [(step, None) for step in range(1, steps, max(1, steps // 3))] + [(None, 1), (None, 2)]
    stopped = 0
    for step, epoch in cuts:
        try:
            interrupted = Interrupted(tmp_path / "work", step, epoch)
            train(spec, "cut", interrupted, precision=precision)
        except (SystemExit, KeyboardInterrupt):
            stopped += 1
            assert (tmp_path / "work" / "state.json").exists()
        found = train(spec, "cut", ordinary(tmp_path), precision=precision)
        assert whole(found) == expected, (step, epoch)
        assert not list((tmp_path / "work").iterdir()), "a finished run leaves no state"
    assert stopped >= len(cuts) - 2, "the last step of an epoch is saved with the epoch"


@pytest.mark.parametrize("name", STAGES)
def test_on_an_accelerator_it_goes_on_in_mid_epoch(
    name: str, make_spec: Any, train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(epochs=2, **STAGES[name])
    with stand_in(monkeypatch):
        expected = whole(train(spec, "uninterrupted", device="mps"))
        with pytest.raises(SystemExit):
            train(spec, "cut", Interrupted(tmp_path / "work", 2, None), device="mps")
        assert whole(train(spec, "cut", ordinary(tmp_path), device="mps")) == expected


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cpu", "resuming after step 2 of 6"),
        ("mps", "state-2.safetensors is of an older version"),
    ],
)
def test_a_state_that_does_not_say_what_was_on_the_device_serves_on_a_cpu(
    device: str,
    message: str,
    make_spec: Any,
    train: Train,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = make_spec(epochs=2)
    with stand_in(monkeypatch):
        expected = whole(train(spec, "uninterrupted", device=device))
        with pytest.raises(SystemExit):
            train(spec, "cut", Interrupted(tmp_path / "work", 2, None), device=device)
        record = read_json(tmp_path / "work" / "state.json")
        del record["on_device"]
        write_json(tmp_path / "work" / "state.json", record)
        assert whole(train(spec, "cut", ordinary(tmp_path), device=device)) == expected
    assert message in capsys.readouterr().err


def test_stopped_again_and_again(make_spec: Any, train: Train, tmp_path: Path) -> None:
    spec = make_spec(epochs=2, **STAGES["surgery, SMART, one cycle"])
    expected = whole(train(spec, "uninterrupted"))
    for step in (1, 2, 4, 5):
        with pytest.raises(SystemExit, match="signal 15"):
            train(spec, "cut", Interrupted(tmp_path / "work", step, None))
    assert whole(train(spec, "cut", ordinary(tmp_path))) == expected


def test_time_saves_too(make_spec: Any, train: Train, tmp_path: Path) -> None:
    class Killed(Checkpoints):
        def save(self, step: int) -> None:
            super().save(step)
            if step == 2:
                raise KeyboardInterrupt

    spec = make_spec(("sst",), epochs=2)
    expected = whole(train(spec, "uninterrupted"))
    with pytest.raises(KeyboardInterrupt):
        train(spec, "cut", Killed(tmp_path / "work", IDENTITY, every=0.0))
    (kept,) = (tmp_path / "work").glob("state-*.safetensors")
    assert kept.name == "state-2.safetensors", "the state before is gone"
    assert whole(train(spec, "cut", ordinary(tmp_path))) == expected


def test_saving_after_every_step_changes_no_bit(
    make_spec: Any, train: Train, tmp_path: Path
) -> None:
    for name in ("surgery, SMART, one cycle", "cached features"):
        spec = make_spec(epochs=2, **STAGES[name])
        expected = whole(train(spec, f"{name} unsaved"))
        saving = Checkpoints(tmp_path / "work", IDENTITY, every=0.0)
        assert whole(train(spec, f"{name} saved", saving)) == expected


def test_an_unfamiliar_state_is_refused(
    make_spec: Any, train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an earlier version of the code may have left it."""
    spec = make_spec(("sst",))
    expected = whole(train(spec, "uninterrupted"))
    write_json(tmp_path / "work" / "state.json", {"identity": IDENTITY, "facts": {"position": {}}})
    assert whole(train(spec, "cut", ordinary(tmp_path))) == expected
    assert "starting from scratch" in capsys.readouterr().err


def test_a_folder_in_the_place_of_the_state_is_refused_before_training(
    make_spec: Any, train: Train, tmp_path: Path
) -> None:
    (tmp_path / "work" / "state.json").mkdir(parents=True)
    with pytest.raises(UserError, match=r"state.json is a folder, expected a file there; move it"):
        train(make_spec(("sst",)), "cut", ordinary(tmp_path))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def rewrite(path: Path, old: str, new: str) -> None:
    record = path.parent / "state.json"
    text = record.read_text()
    assert old in text
    record.write_text(text.replace(old, new))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit": (flip, "is damaged: its checksum"),
    "half a file": (lambda path: path.write_bytes(path.read_bytes()[:500]), "is damaged"),
    "no tensors": (lambda path: path.unlink(), "cannot be read (FileNotFoundError"),
    "half a record": (
        lambda path: (path.parent / "state.json").write_text('{"identity": "key'),
        "state.json: not valid JSON",
    ),
    "a flipped bit in the best epoch's weights": (
        lambda path: flip(path.with_name("best-1.safetensors")),
        "best-1.safetensors is damaged: its checksum",
    ),
    "no best epoch's weights": (
        lambda path: path.with_name("best-1.safetensors").unlink(),
        "best-1.safetensors is missing",
    ),
    "another run": (
        lambda path: rewrite(path, "key seed 4", "another seed 4"),
        "is from another run or from other code",
    ),
    "another device": (
        lambda path: rewrite(path, '"computed_on": "cpu, ', '"computed_on": "cuda, '),
        "was computed on cuda, fp32, not cpu, fp32",
    ),
    "another precision": (
        lambda path: rewrite(path, '"computed_on": "cpu, fp32"', '"computed_on": "cpu, bf16"'),
        "was computed on cpu, bf16, not cpu, fp32",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bad_state_is_refused_and_training_starts_from_scratch(
    damage: str, make_spec: Any, train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harm, message = DAMAGES[damage]
    spec = make_spec(("sst",), epochs=2)
    expected = whole(train(spec, "uninterrupted"))
    with pytest.raises(SystemExit):
        train(spec, "cut", Interrupted(tmp_path / "work", 4, None))
    (tensors,) = (tmp_path / "work").glob("state-*.safetensors")
    harm(tensors)
    capsys.readouterr()
    assert whole(train(spec, "cut", ordinary(tmp_path))) == expected
    told = capsys.readouterr().err
    assert "starting from scratch: " in told and message in told
    assert not list((tmp_path / "work").iterdir())


def test_it_says_where_it_goes_on(
    make_spec: Any, train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = make_spec(("sst",), epochs=2)
    with pytest.raises(SystemExit):
        train(spec, "cut", Interrupted(tmp_path / "work", 4, None))
    capsys.readouterr()
    train(spec, "cut", ordinary(tmp_path))
    assert "resuming after step 4 of 6" in capsys.readouterr().err
