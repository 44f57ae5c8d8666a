"""What a job reads before it starts, and what it refuses."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import put

from minbert.base.errors import UserError
from minbert.base.files import write_json
from minbert.base.locks import results_lock
from minbert.commands import steps
from minbert.store.job import Job
from minbert.store.node import KINDS, Need, Node, key_of
from minbert.store.plans import description_path, write_plan
from minbert.track.journal import newest_attempts

MAKER = "minbert.evaluate.scoring"
TRAINING = Node("train", {"stage": {"tasks": {}}}, MAKER)
TEXTS = Node("data", {}, "minbert.data.dataset")


def tell(root: Path, *described: dict[str, Any], **extra: Any) -> None:
    """Leave descriptions, and the record of a plan with these jobs."""
    own = {"title": "T", "owner": None, "extra": extra, "needs": {}}
    for each in described:
        write_json(description_path(root, each["kind"], each["key"]), each)
    jobs = {f"{each['kind']}-{each['key']}": own for each in described}
    write_plan(root, {"jobs": jobs, "files": {}})


def test_other_code_than_was_planned_is_refused(tmp_path: Path) -> None:
    told = Node("tokens", {}, "minbert.data.tokenise").describe()
    other = told | {"code": {**told["code"], "minbert.data.tokenise": "0" * 64}}
    other["key"] = key_of(other)
    tell(tmp_path, other)
    for key, said in (
        (other["key"], r"changed since it was planned \(minbert\.data\.tokenise"),
        ("00ff", r"tokens-00ff\.json is missing: never planned"),
    ):
        with pytest.raises(UserError, match=said):
            steps.make(tmp_path, [f"tokens-{key}"])


@pytest.mark.parametrize(
    ("kind", "wish", "seen", "given"),
    [
        ("tokens", None, "", "cpu"),
        ("features", "auto", "GPU-1", "auto"),
        ("features", "cuda:0", "GPU-1", "cuda"),
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
    node = Node(kind, {}, MAKER)
    tell(tmp_path, node.describe(), **({"device": wish} if wish else {}))
    found: list[tuple[str, str]] = []

    def make(job: Job) -> None:
        found.append((os.environ["CUDA_VISIBLE_DEVICES"], job.device))

    monkeypatch.setattr(f"{MAKER}.make", make, raising=False)
    steps.make(tmp_path, [f"{kind}-{node.key}"], memory=1000)
    assert found == [(seen, given)]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_training_removes_what_a_killed_one_was_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more: its state, and what others are downloading, stay."""
    tell(tmp_path, TRAINING.describe(), device="cpu")
    folders = [tmp_path / at / TRAINING.key / "seed0" for at in ("work", "store/train")]
    for folder in folders:
        for name in ("state-9.pt", ".state-9.pt.77.part", ".aclImdb.tar.gz.part"):
            put(folder / name)
    monkeypatch.setattr("minbert.commands.steps._train", lambda *_: None)
    steps.make(tmp_path, [f"train-{TRAINING.key}"], seed=0)
    left = [{path.name for path in folder.iterdir()} - {"lock"} for folder in folders]
    assert left == [{"state-9.pt", ".aclImdb.tar.gz.part"}] * 2


def test_a_training_that_another_process_has_just_finished_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(tmp_path, TRAINING.describe(), device="cpu")
    for name in KINDS["train"].outputs:
        put(TRAINING.folder(tmp_path, 0) / name)
    monkeypatch.setattr(steps, "_train", lambda *_: pytest.fail("trained again"))
    monkeypatch.setattr(steps, "exclusive_lock", lambda *_: nullcontext(True))  # It has waited.
    steps.make(tmp_path, [f"train-{TRAINING.key}"], seed=0)
    assert "has finished it" in capsys.readouterr().err


def test_a_training_that_does_not_end_its_step_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(job: Job, **more: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
        pytest.fail("it goes on")

    about = {"title": "T . sst", "owner": {"paper": "p", "variant": "v", "stage": "s"}}
    described = TRAINING.describe()
    tell(tmp_path, described, device="cpu", checkpoint_seconds=60)
    job = steps.load_job(tmp_path, "train", TRAINING.key, seed=0)
    monkeypatch.setattr(steps, "GRACE", 1)
    monkeypatch.setattr(steps, "provenance", lambda _: {})
    monkeypatch.setattr(f"{MAKER}.make", make, raising=False)
    with pytest.raises(SystemExit, match="stopped by signal 14"):
        steps.run_job(replace(job, described=job.described | about))
    assert next(iter(newest_attempts(tmp_path).values())).end()["status"] == "KILLED"


def test_jobs_and_what_deletes_results_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(job: Job) -> None:
        with results_lock(tmp_path, alone=True):
            pytest.fail("deleted under a job")

    node = Node("tokens", {}, MAKER)
    tell(tmp_path, node.describe())
    monkeypatch.setattr(f"{MAKER}.make", make, raising=False)
    with pytest.raises(UserError, match="in use: a workflow or a job is running"):
        steps.make(tmp_path, [f"tokens-{node.key}"])
    with results_lock(tmp_path, alone=True), pytest.raises(UserError, match="`minbert gc`"):
        steps.make(tmp_path, [f"tokens-{node.key}"])


@pytest.mark.parametrize(("kind", "least"), [("scores", 2), ("report", 2), ("rows", 3)])
def test_nothing_is_made_of_half_of_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, least: int
) -> None:
    """Under its key it would count as whole. Pages can do without texts, which no bundle has."""
    needs = {str(seed): Need(TRAINING, "predictions.parquet", seed) for seed in (0, 1)}
    node = Node(kind, {}, MAKER, needs=needs | {"texts": Need(TEXTS, "examples.parquet")})
    tell(tmp_path, node.describe())
    made: list[Job] = []
    monkeypatch.setattr(f"{MAKER}.make", made.append, raising=False)
    missing = [TRAINING.folder(tmp_path, seed) / "predictions.parquet" for seed in (0, 1)]
    for path in [*missing, TEXTS.folder(tmp_path) / "examples.parquet"][:least]:
        with pytest.raises(UserError, match=f"{path}: there is no such file, and T needs it; run"):
            steps.make(tmp_path, [f"{kind}-{node.key}"])
        put(path)
    steps.make(tmp_path, [f"{kind}-{node.key}"])
    assert len(made) == 1
