"""What a job reads before it starts, and what it refuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json, write_text
from minbert.commands.steps import load_job, run_step
from minbert.store.job import Job
from minbert.store.node import Need, Node, key_of
from minbert.store.plans import description_path, write_plan


def tell(root: Path, *described: dict[str, Any], **more: Any) -> None:
    """Leave descriptions, and the record of a plan with these jobs."""
    own = {"title": "T", "owner": None, "extra": {}, "needs": {}, **more}
    for each in described:
        write_json(description_path(root, each["kind"], each["key"]), each)
    jobs = {f"{each['kind']}-{each['key']}": own for each in described}
    write_plan(root, {"jobs": jobs, "files": {}})


@pytest.fixture
def tokens(tmp_path: Path) -> Node:
    """Return a described node that needs an example table."""
    examples = Node("data", {"source": "builtin"}, "minbert.data.dataset")
    stage = Node("train", {"stage": {"tasks": {}}}, "minbert.evaluate.scoring")
    needs = {
        "table.sst": Need(examples, "examples.parquet"),
        "own": Need(stage, "model.safetensors"),
        "third": Need(stage, "history.parquet", 3),
    }
    node = Node("tokens", {}, "minbert.data.tokenise", needs=needs)
    tell(tmp_path, node.describe(), stage.describe())
    return node


def test_a_job_knows_its_files(tmp_path: Path, tokens: Node) -> None:
    job = load_job(tmp_path, "tokens", tokens.key, 7, 1)
    assert job.out == tmp_path / "store" / "tokens" / tokens.key
    stage = tokens.needs["own"].node.key
    train = tmp_path / "store" / "train" / stage
    assert job.need("own") == train / "seed7" / "model.safetensors"
    assert job.need("third") == train / "seed3" / "history.parquet"
    assert list(job.needs("table")) == ["sst"]
    assert load_job(tmp_path, "train", stage, 2, 1).out == train / "seed2"


def test_a_key_that_is_not_planned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no tokens with key 00ff was planned.*`minbert plan`"):
        run_step(tmp_path, "tokens", "00ff", None, 1)


def test_a_misspelt_results_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"reslts: there is no such results folder"):
        run_step(tmp_path / "reslts", "tokens", "00ff", None, 1)
    assert not list(tmp_path.iterdir())


def test_changed_code_is_refused(tmp_path: Path, tokens: Node) -> None:
    described: dict[str, Any] = tokens.describe()
    described["code"] = {**described["code"], "minbert.data.tokenise": "0" * 64}
    key = described["key"] = key_of(described)
    tell(tmp_path, described)
    with pytest.raises(UserError, match=r"changed since it was planned \(minbert\.data\.tokenise"):
        load_job(tmp_path, "tokens", key, None, 1)


@pytest.mark.parametrize("changed", ["spec", "needs"])
def test_a_description_of_another_key_is_refused(
    tmp_path: Path, tokens: Node, changed: str
) -> None:
    path = description_path(tmp_path, "tokens", tokens.key)
    described: dict[str, Any] = read_json(path)
    if changed == "spec":
        described["spec"]["max_length"] = 8
    else:
        described["needs"]["third"]["seed"] = 0
    write_json(path, described)
    with pytest.raises(UserError, match=rf"{tokens.key}\.json: .* run snakemake again"):
        load_job(tmp_path, "tokens", tokens.key, None, 1)


@pytest.mark.parametrize(
    ("kind", "wish", "seen", "given"),
    [
        ("tokens", None, "", "cpu"),
        ("features", "auto", "1", "auto"),
        ("features", "cuda:0", "1", "cuda"),
        ("features", "cpu", "", "cpu"),
    ],
)
def test_a_step_sees_the_gpu_that_it_computes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nvidia_smi: Callable[[int], object],
    kind: str,
    wish: str | None,
    seen: str,
    given: str,
) -> None:
    """Of two cards the second is visible; steps that compute nothing see none."""
    nvidia_smi(2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    node = Node(kind, {}, "minbert.evaluate.scoring", extra={"device": wish} if wish else {})
    tell(tmp_path, node.describe(), extra=dict(node.extra))
    found: list[tuple[str, str]] = []

    def make(job: Job) -> None:
        found.append((os.environ["CUDA_VISIBLE_DEVICES"], job.device))

    monkeypatch.setattr("minbert.evaluate.scoring.make", make, raising=False)
    run_step(tmp_path, kind, node.key, None, 1, memory=10**9)
    assert found == [(seen, given)]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_training_removes_what_a_killed_one_was_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more: its state, and what others are downloading, stay."""
    node = Node("train", {"stage": {"tasks": {}}}, "minbert.evaluate.scoring")
    tell(tmp_path, node.describe(), extra={"device": "cpu"})
    folders = [tmp_path / at / node.key / "seed0" for at in ("work", "store/train")]
    for name in ("state-9.pt", ".state-9.pt.77.part", ".aclImdb.tar.gz.part"):
        for folder in folders:
            write_text(folder / name, "x")
    left: list[set[str]] = []

    def train(*_: object) -> None:
        left.extend({path.name for path in folder.iterdir()} - {"lock"} for folder in folders)

    monkeypatch.setattr("minbert.commands.steps._train_on", train)
    run_step(tmp_path, "train", node.key, 0, 1)
    assert left == [{"state-9.pt", ".aclImdb.tar.gz.part"}] * 2


@pytest.mark.parametrize("kind", ["scores", "report", "rows"])
def test_nothing_is_made_of_half_of_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Under its key it would count as whole. Pages can do without texts, which no bundle has."""
    data = Node("data", {"source": "builtin"}, "minbert.data.dataset")
    stage = Node("train", {"stage": {"tasks": {}}}, "minbert.evaluate.scoring")
    needs = {
        "first": Need(stage, "predictions.parquet", 0),
        "second": Need(stage, "predictions.parquet", 1),
        "texts": Need(data, "examples.parquet"),
    }
    node = Node(kind, {"runs": []}, "minbert.evaluate.scoring", needs=needs)
    tell(tmp_path, node.describe())
    made: list[Job] = []
    monkeypatch.setattr("minbert.evaluate.scoring.make", made.append, raising=False)
    for seed in (0, 1):
        path = tmp_path / "store" / "train" / stage.key / f"seed{seed}" / "predictions.parquet"
        with pytest.raises(UserError, match=f"{path}: there is no such file, and T needs it; run"):
            run_step(tmp_path, kind, node.key, None, 1)
        write_text(path, "")
    if kind == "rows":
        with pytest.raises(UserError, match=r"examples\.parquet: .*it, data "):
            run_step(tmp_path, kind, node.key, None, 1)
    else:
        run_step(tmp_path, kind, node.key, None, 1)
    assert len(made) == (kind != "rows")
