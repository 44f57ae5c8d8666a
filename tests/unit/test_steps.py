"""What a job reads before it starts, and what it refuses."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from minbert.common.errors import UserError
from minbert.common.files import read_json, write_json
from minbert.grid.job import Job
from minbert.grid.node import Need, Node, description_path
from minbert.steps import STEPS, _device, run_step


@pytest.fixture
def tokens(tmp_path: Path) -> Node:
    """Return a described node that needs an example table."""
    examples = Node("data", {"source": "builtin"}, ("minbert.data.report",))
    stage = Node("train", {"stage": 1}, ("minbert.scoring",))
    needs = {
        "table.sst": Need(examples, "examples.parquet"),
        "own": Need(stage, "model.safetensors"),
        "third": Need(stage, "history.parquet", 3),
    }
    node = Node("tokens", {}, ("minbert.data.tokenise",), needs)
    for each in (node, stage):
        write_json(description_path(tmp_path, each.kind, each.key), each.describe())
    return node


def test_a_job_knows_its_files(tmp_path: Path, tokens: Node) -> None:
    job = Job.load(tmp_path, "tokens", tokens.key, 7, 1)
    assert job.out == tmp_path / "store" / "tokens" / tokens.key
    stage = tokens.needs["own"].node.key
    train = tmp_path / "store" / "train" / stage
    assert job.need("own") == train / "seed7" / "model.safetensors"
    assert job.need("third") == train / "seed3" / "history.parquet"
    assert list(job.needs("table")) == ["sst"]
    assert Job.load(tmp_path, "train", stage, 2, 1).out == train / "seed2"


def test_a_key_that_is_not_planned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no tokens with key 00ff is planned.*`minbert plan`"):
        run_step(tmp_path, "tokens", "00ff", None, 1)


def test_training_without_a_seed_is_refused(tmp_path: Path, tokens: Node) -> None:
    with pytest.raises(UserError, match="a train job needs --seed"):
        Job.load(tmp_path, "train", tokens.needs["own"].node.key, None, 1)


def test_changed_code_is_refused(tmp_path: Path, tokens: Node) -> None:
    path = description_path(tmp_path, "tokens", tokens.key)
    described: dict[str, Any] = read_json(path)
    described["code"]["minbert.data.tokenise"] = "0" * 64
    write_json(path, described)
    with pytest.raises(UserError, match=r"changed since it was planned \(minbert\.data\.tokenise"):
        Job.load(tmp_path, "tokens", tokens.key, None, 1)


def test_every_kind_has_a_step() -> None:
    from minbert.grid.node import OUTPUTS

    assert set(STEPS) == {*OUTPUTS, "fetch"}


@pytest.mark.parametrize(
    ("kind", "wish", "seen", "given"),
    [
        ("tokens", None, "", None),
        ("features", "auto", "1", "auto"),
        ("features", "cuda:0", "1", "cuda"),
        ("features", "cpu", "", "cpu"),
    ],
)
def test_a_step_sees_the_gpu_that_it_computes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    wish: str | None,
    seen: str,
    given: str | None,
) -> None:
    """Of two cards the second is visible; steps that compute nothing see none."""
    monkeypatch.setenv("MINBERT_FAKE_DEVICES", "2x80GB")
    monkeypatch.setenv("MINBERT_DEVICE_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    node = Node(kind, {}, ("minbert.scoring",), extra={"device": wish} if wish else {})
    write_json(description_path(tmp_path, kind, node.key), node.describe())
    found: list[tuple[str, str | None]] = []

    def step(job: Job) -> None:
        with _device(job) if wish else nullcontext() as device:
            found.append((os.environ["CUDA_VISIBLE_DEVICES"], device))

    monkeypatch.setitem(STEPS, kind, step)
    run_step(tmp_path, kind, node.key, None, 1, memory=10**9)
    assert found == [(seen, given)]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"


@pytest.mark.parametrize("wish", [False, True])
def test_training_is_told_whether_to_record(
    wish: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_spec: Any
) -> None:
    told: list[bool] = []
    monkeypatch.setattr(
        "minbert.train.run.train_stage", lambda *_, cuda_graphs, **__: told.append(cuda_graphs)
    )
    monkeypatch.setattr("minbert.steps._save_before_stopping", lambda checkpoints: None)
    # As one of several processes, which keeps no journal.
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("RANK", "1")
    backbone = Node("backbone", {}, ("minbert.scoring",))
    node = Node(
        "train",
        {"stage": make_spec().model_dump(mode="json")},
        ("minbert.scoring",),
        {"backbone.config.json": Need(backbone, "config.json")},
        {"device": "cpu", "precision": "fp32", "cuda_graphs": wish, "checkpoint_seconds": 1.0},
    )
    write_json(description_path(tmp_path, "train", node.key), {**node.describe(), "title": "t"})
    STEPS["train"](Job.load(tmp_path, "train", node.key, 0, 1))
    assert told == [wish]
