"""The follower on a real sqlite store: every row arrives, once, whatever is killed."""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from minbert.track.attempts import Attempt, attempts
from minbert.track.follower import Follower, finish, follow
from minbert.track.journal import Journal
from minbert.track.location import tracking_uri
from minbert.track.store import open_store

if TYPE_CHECKING:
    from mlflow.entities import Run

# Forked from a process that has imported mlflow and opened nothing: an import takes seconds.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["mlflow.tracking", "mlflow.store.tracking.sqlalchemy_store"])


def _follow(root: Path, pid: int, told: Path) -> None:
    with told.open("a", buffering=1, encoding="utf-8") as sys.stderr:
        follow(root, until_pid=pid, interval=0.05)


@contextmanager
def follower(root: Path, told: Path, pid: int | None = None) -> Iterator[BaseProcess]:
    """Run a follower in a process of its own; SIGKILL it at the end, if it is still there."""
    process = processes.Process(target=_follow, args=(root, pid or os.getpid(), told))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited 60 s for {what}"
        time.sleep(0.02)


def make(root: Path) -> None:
    open_store(root).experiment("x")


@pytest.fixture(autouse=True)
def _own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that three processes made at once; the others are copies, which is quicker."""
    folder = tmp_path_factory.mktemp("made").resolve()
    users = [processes.Process(target=make, args=(folder,)) for _ in range(3)]
    for user in users:
        user.start()
    for user in users:
        user.join(120)
    assert [user.exitcode for user in users] == [0, 0, 0]
    return folder / "mlflow.db"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, made: Path) -> Path:
    """Results whose store all tests share; each uses an experiment or keys of its own."""
    folder = tmp_path_factory.mktemp("results").resolve()
    shutil.copy(made, folder)
    return folder


def start(root: Path, key: str, seed: int = 0, **more: Any) -> Journal:
    run = {"experiment": "paper", "key": key, "seed": seed, "name": f"{key} . sst . s{seed}"}
    return Journal.start(root, {**run, **more})


def log(journal: Journal, steps: range, value: Callable[[int], float] = float) -> None:
    for step in steps:
        journal.log(step, 1, "train", "sst", "loss", value(step), 1.7e9 + step / 7)


def stored_run(root: Path, attempt: Path | str) -> Run:
    store = open_store(root)
    name = Path(attempt).name
    found = [
        run
        for experiment in store.client.search_experiments()
        for run in store.runs(experiment.experiment_id)
        if run.data.tags.get("minbert.attempt") == name
    ]
    assert len(found) == 1, f"{name} is stored {len(found)} times"
    return found[0]


def stored_points(root: Path, run_id: str) -> Counter[tuple[str, int, int, float, bool]]:
    with sqlite3.connect(root / "mlflow.db") as connection:
        query = "SELECT key, step, timestamp, value, is_nan FROM metrics WHERE run_uuid = ?"
        rows = connection.execute(query, (run_id,)).fetchall()
    return Counter((k, s, t, 0.0 if nan else v, bool(nan)) for k, s, t, v, nan in rows)


def written_points(attempt: Attempt) -> Counter[tuple[str, int, int, float, bool]]:
    largest = sys.float_info.max
    return Counter(
        (
            f"{row.split}/{row.task}/{row.metric}",
            row.step,
            round(row.time * 1000),
            0.0 if math.isnan(row.value) else max(-largest, min(largest, row.value)),
            math.isnan(row.value),
        )
        for row in attempt.rows(0, 1 << 62)[0]
    )


def test_a_whole_run(root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Names, params, data sets, every point, artifacts, status, experiment and its view."""
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    digest = "0123456789abcdef" * 4
    journal = start(
        root,
        "whole",
        params={"variant": "1-bert", "tasks": "sst", "seed": "0", "long": "x" * 9000},
        tags={"commit": "abc"},
        datasets=[{"name": "sst", "digest": digest, "source": "built-in", "rows": 8}],
        started=1.7e9,
    )
    log(journal, range(1, 2501), lambda step: 1 / step)
    for step, value in enumerate([math.nan, math.inf, -math.inf], 1):
        journal.log(step, 1, "dev", "sst", "loss", value, 1.7e9)
    journal.log(2500, 1, "dev", "overall", "normalised", 0.625, 1.7e9)
    journal.log(2500, 1, "dev", "overall", "odd(name)", 0.5, 1.7e9)
    journal.end("FINISHED", artifacts=[weights, tmp_path / "gone"], params={"seconds": "3.5"})
    finish(root)

    run = stored_run(root, journal.folder)
    points = stored_points(root, run.info.run_id)
    wanted = written_points(Attempt(journal.folder))
    renamed = Counter(
        {(k.replace("(", "_").replace(")", "_"), *p): n for (k, *p), n in wanted.items()}
    )
    assert points == renamed
    assert sum(points.values()) == 2505
    assert (run.info.run_name, run.info.status) == ("whole . sst . s0", "FINISHED")
    assert run.info.start_time == 1_700_000_000_000
    assert run.data.params["variant"] == "1-bert"
    assert run.data.params["seconds"] == "3.5"
    assert len(run.data.params["long"]) == 6000
    assert run.data.tags["commit"] == "abc"
    assert run.data.tags["minbert.score"] == "0.625000"
    assert run.inputs is not None
    (used,) = run.inputs.dataset_inputs
    assert digest.startswith(used.dataset.digest)
    assert digest in str(used.dataset.profile)
    kept = root / "mlartifacts" / "paper" / run.info.run_id / "artifacts" / "model.safetensors"
    assert kept.read_bytes() == b"weights"
    assert os.path.samefile(kept, weights), "weights take a second copy"
    assert f"{tmp_path / 'gone'}: not attached" in capfd.readouterr().err

    experiment = open_store(root).client.get_experiment_by_name("paper")
    assert experiment is not None
    assert experiment.artifact_location == str(root / "mlartifacts" / "paper")
    assert "minbert.score" in experiment.tags["mlflow.note.content"]
    assert "metrics.`dev/sts/pearson`" in experiment.tags["mlflow.sharedViewState.minbert"]


def test_notes_may_be_lost(root: Path) -> None:
    journal = start(root, "notes")
    log(journal, range(1500))
    journal.end("FINISHED")
    finish(root)
    run = stored_run(root, journal.folder)
    before = stored_points(root, run.info.run_id)
    assert sum(before.values()) == 1500
    for note in ("cursor.json", "stored.json"):
        (journal.folder / note).unlink()
    finish(root)
    assert stored_run(root, journal.folder).info.run_id == run.info.run_id
    assert stored_points(root, run.info.run_id) == before


def test_nothing_to_store_imports_no_mlflow(tmp_path: Path) -> None:
    code = (
        f"import sys; from minbert.track.follower import finish; finish({str(tmp_path)!r}); "
        "print('mlflow' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (out.stdout, out.stderr) == ("False\n", "")
    assert not (tmp_path / "mlflow.db").exists()


def test_a_killed_follower_loses_no_point(root: Path, tmp_path: Path) -> None:
    """Two jobs write on while the follower dies by SIGKILL twice."""
    jobs = [start(root, "first"), start(root, "second")]
    step = 0

    def cursors() -> list[int]:
        return [Attempt(job.folder).recall("cursor.json").get("offset", 0) for job in jobs]

    for _ in range(2):
        before = cursors()

        def moved(before: list[int] = before) -> bool:
            nonlocal step
            for job in jobs:
                log(job, range(step, step + 20), math.sin)
                job.flush()
            step += 20
            return all(new > old for new, old in zip(cursors(), before, strict=True))

        with follower(root, tmp_path / "told"):
            wait_for(moved, "points of both jobs")
    assert stored_run(root, jobs[0].folder).info.status == "RUNNING"
    jobs[0].end("FAILED", error="loss is nan at step 7")
    log(jobs[1], range(step, step + 5))
    jobs[1].end("FINISHED")
    finish(root)
    for job, status in zip(jobs, ["FAILED", "FINISHED"], strict=True):
        run = stored_run(root, job.folder)
        assert run.info.status == status
        assert stored_points(root, run.info.run_id) == written_points(Attempt(job.folder))
    assert stored_run(root, jobs[0].folder).data.tags["minbert.error"] == "loss is nan at step 7"


def test_a_killed_job_is_killed_and_its_rerun_supersedes_it(root: Path) -> None:
    code = f"""
        import os, signal
        from minbert.track.journal import Journal
        run = {{"experiment": "paper", "key": "again", "seed": 3, "name": "again . s3"}}
        journal = Journal.start({str(root)!r}, run)
        for step in range(10):
            journal.log(step, 1, "train", "sst", "loss", 1.0, 1.7e9)
        journal.flush()
        with (journal.folder / "history.jsonl").open("ab") as handle:
            handle.write(b'{{"step": 11, "ep')
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    (killed,) = [a for a in attempts(root) if a.run["key"] == "again"]
    finish(root)
    run = stored_run(root, killed.name)
    assert run.info.status == "KILLED"
    assert sum(stored_points(root, run.info.run_id).values()) == 10
    assert "minbert.superseded" not in run.data.tags
    assert killed not in Follower(root, tracking_uri(root)).pending()

    other_seed = start(root, "again", seed=4)
    other_seed.end("FINISHED")
    rerun = start(root, "again", seed=3)
    finish(root)
    assert stored_run(root, killed.name).data.tags["minbert.superseded"] == rerun.folder.name
    assert "minbert.superseded" not in stored_run(root, other_seed.folder).data.tags
    assert stored_run(root, rerun.folder).info.status == "RUNNING"
    rerun.end("FINISHED")
    finish(root)
    assert stored_run(root, rerun.folder).info.status == "FINISHED"


def test_a_job_that_only_seemed_dead_is_taken_up_again(root: Path) -> None:
    journal = start(root, "revived")
    log(journal, range(5))
    journal.flush()
    (journal.folder / "lock").rename(journal.folder / "unseen")  # As if locks did not reach us.
    finish(root)
    assert stored_run(root, journal.folder).info.status == "KILLED"
    log(journal, range(5, 9))
    journal.end("FINISHED")
    finish(root)
    run = stored_run(root, journal.folder)
    assert run.info.status == "FINISHED"
    assert sum(stored_points(root, run.info.run_id).values()) == 9


def test_an_unreadable_attempt_does_not_stop_the_others(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken, refused, sound = start(root, "broken"), start(root, "refused"), start(root, "sound")
    (broken.folder / "run.json").write_text("{")
    refused.log(1, 1, "dev", "x" * 300, "loss", 1.0, 1.0)
    for journal in (broken, refused, sound):
        journal.end("FINISHED")
    finish(root)
    told = capfd.readouterr().err
    assert f"{broken.folder / 'run.json'} cannot be read" in told
    assert f"{refused.folder}: not stored: " in told
    assert stored_run(root, sound.folder).info.status == "FINISHED"
    (broken.folder / "run.json").unlink()
    refused.folder.rename(root / "tracking" / ".refused")


def test_the_alias_best_follows_the_best_kept_run(root: Path, tmp_path: Path) -> None:
    client = open_store(root).client

    def run_with(key: str, score: float, status: Any = "FINISHED", seed: int = 0) -> Path:
        weights = tmp_path / key / "model.safetensors"
        weights.parent.mkdir(exist_ok=True)
        weights.write_text(key)
        journal = start(root, key, seed, experiment="models", params={"variant": f"v-{key}"})
        journal.log(1, 1, "dev", "overall", "plain", 0.99, 1.0)
        journal.log(1, 1, "dev", "overall", "normalised", score, 1.0)
        journal.log(2, 2, "dev", "overall", "normalised", 0.1, 2.0)
        journal.end(status, artifacts=[weights])
        finish(root)
        return journal.folder

    def best() -> Any:
        return client.get_model_version_by_alias("minbert-models", "best")

    good = run_with("good", 0.6)
    assert best().run_id == stored_run(root, good).info.run_id
    assert best().source == f"{stored_run(root, good).info.artifact_uri}/model.safetensors"
    assert Path(best().source).read_text() == "good"
    tags = {"variant": "v-good", "seed": "0", "key": "good", "score": "0.600000"}
    assert best().tags == tags
    run_with("worse", 0.5)
    run_with("failed", 0.9, "FAILED")
    assert best().tags == tags
    run_with("better", 0.7)
    assert best().tags["variant"] == "v-better"
    run_with("better", 0.4)
    assert best().tags["variant"] == "v-good"
    assert len(client.search_model_versions("name = 'minbert-models'")) == 2


def test_the_second_follower_leaves_or_waits(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = tmp_path / "told"
    workflow = subprocess.Popen(["sleep", "600"])
    try:
        with follower(root, tmp_path / "first"):
            journal = start(root, "shared")
            log(journal, range(3))
            journal.flush()
            wait_for((journal.folder / "cursor.json").exists, "the first point")
            follow(root, interval=0.05)
            assert "another follower works on" in capfd.readouterr().err
            journal.end("FINISHED")
            finish(root)  # Waits for the one at work.
            assert stored_run(root, journal.folder).info.status == "FINISHED"
            waiting = processes.Process(target=_follow, args=(root, workflow.pid, told))
            waiting.start()
            wait_for(lambda: told.exists() and "waiting" in told.read_text(), "the second one")
        later = start(root, "later")
        log(later, range(7))
        later.end("FINISHED")
    finally:
        workflow.kill()
        workflow.wait()
    waiting.join(60)
    assert waiting.exitcode == 0
    run = stored_run(root, later.folder)
    assert sum(stored_points(root, run.info.run_id).values()) == 7


def test_the_store_is_made_once_by_many(made: Path) -> None:
    with sqlite3.connect(made) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        names = [row[0] for row in connection.execute("SELECT name FROM experiments")]
    assert sorted(names) == ["Default", "x"]
    assert not list(made.parent.glob(".mlflow.db.*.part*"))


def test_a_lost_store_is_filled_again_from_the_jobs_files(tmp_path: Path, made: Path) -> None:
    """Deleting mlflow.db loses nothing: the attempts' notes do not count for another store."""
    path = tmp_path / "mlflow.db"
    journal = start(tmp_path, "kept")
    log(journal, range(12))
    journal.end("FINISHED")
    for _ in range(2):
        pending = Follower(tmp_path, tracking_uri(tmp_path)).pending()
        assert pending[0].path == journal.folder
        shutil.copy(made, path)
        other = start(tmp_path, "other")  # Something new: else nobody would look into the store.
        other.end("FINISHED")
        process = processes.Process(target=finish, args=(tmp_path,))
        process.start()
        process.join(60)
        with sqlite3.connect(path) as connection:
            assert connection.execute("SELECT count(*) FROM metrics").fetchone() == (12,)
        assert Follower(tmp_path, tracking_uri(tmp_path)).pending() == []
        path.unlink()
