"""The follower on a real sqlite store: every row arrives, once, whatever is killed."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from chaos.compare import written_points
from following import (
    follower,
    log,
    offset,
    processes,
    results,
    start,
    stored_points,
    stored_run,
    wait_for,
)

from minbert.base.files import read_json, write_json
from minbert.spec.protocol import Measured
from minbert.track.follower import Follower
from minbert.track.journal import Attempt, attempts
from minbert.track.store import Tag, open_store


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, mlflow_store: Path) -> Path:
    """Results whose store all tests share; each uses an experiment or keys of its own."""
    return results(tmp_path_factory.mktemp("results").resolve(), mlflow_store)


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
        journal.log(Measured(step, 1, "dev", "sst", "loss", value, 1.7e9))
    journal.log(Measured(2500, 1, "dev", "overall", "normalised", 0.625, 1.7e9))
    journal.log(Measured(2500, 1, "dev", "overall", "odd(name)", 0.5, 1.7e9))
    journal.end(
        "FINISHED",
        artifacts={"model.safetensors": weights, "gone": tmp_path / "gone"},
        params={"seconds": "3.5"},
    )
    Follower(root).finish()

    run = stored_run(root, journal.folder)
    points = stored_points(root, run.info.run_id)
    assert points == written_points(Attempt(journal.folder))
    assert ("dev/overall/odd_name_", 2500, 1_700_000_000_000, 0.5, False) in points
    assert sum(points.values()) == 2505
    assert (run.info.run_name, run.info.status) == ("whole . sst . s0", "FINISHED")
    assert run.info.start_time == 1_700_000_000_000
    assert run.data.params["variant"] == "1-bert"
    assert run.data.params["seconds"] == "3.5"
    assert len(run.data.params["long"]) == 6000
    assert run.data.tags["commit"] == "abc"
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
    assert "best/TASK" in experiment.tags["mlflow.note.content"]
    assert "metrics.`best/sts`" in experiment.tags["mlflow.sharedViewState.minbert"]


def test_curves_are_attached_and_a_figure_that_fails_costs_nothing_else(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def draw(history: Path, title: str, rule: str, target: Path) -> None:
        if "bad" in title:
            raise ValueError("no epoch")
        target.write_text(f"{title} by {rule}")

    history = tmp_path / "history.parquet"
    history.touch()
    runs = {}
    for key in ("good", "bad"):
        journal = start(root, f"{key}-curves", tags={"minbert.select": "plain"})
        journal.end("FINISHED", artifacts={"history.parquet": history})
        runs[key] = journal.folder
    Follower(root, draw=draw).finish()
    found = stored_run(root, runs["good"])
    kept = root / "mlartifacts" / "paper" / found.info.run_id / "artifacts" / "figures"
    assert (kept / "curves.png").read_text() == "good-curves . sst . s0 by plain"
    assert stored_run(root, runs["bad"]).info.status == "FINISHED"
    assert f"{history}: its curves cannot be drawn: no epoch" in capfd.readouterr().err


def test_a_run_whose_place_is_lost_is_sent_again_harmlessly(root: Path) -> None:
    """As by a version that kept no place in the store, or a follower killed between the two."""
    journal = start(root, "place")
    log(journal, range(1500))
    journal.end("FINISHED")
    Follower(root).finish()
    run = stored_run(root, journal.folder)
    before = stored_points(root, run.info.run_id)
    assert sum(before.values()) == 1500 and run.data.tags[Tag.OFFSET] == "ended"
    for place in ("0", None):
        client = open_store(root).client
        if place:
            client.set_tag(run.info.run_id, Tag.OFFSET, place)
        else:
            client.delete_tag(run.info.run_id, Tag.OFFSET)
        Follower(root).finish()
        again = stored_run(root, journal.folder)
        assert again.info.run_id == run.info.run_id
        assert again.data.tags[Tag.OFFSET] == "ended"
        assert stored_points(root, run.info.run_id) == before


def test_nothing_to_store_imports_no_mlflow(tmp_path: Path) -> None:
    code = (
        "import sys; from minbert.track.follower import Follower; "
        f"Follower({str(tmp_path)!r}).finish(); "
        "print('mlflow' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (out.stdout, out.stderr) == ("False\n", "")
    assert not (tmp_path / "mlflow.db").exists()


def test_an_unreadable_attempt_does_not_stop_the_others(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken, refused, sound = start(root, "broken"), start(root, "refused"), start(root, "sound")
    (broken.folder / "run.json").write_text("{")
    refused.log(Measured(1, 1, "dev", "x" * 300, "loss", 1.0, 1.0))
    for journal in (broken, refused, sound):
        journal.end("FINISHED")
    assert Follower(root).finish() == 2
    told = capfd.readouterr().err
    assert f"{broken.folder}: not stored: {broken.folder / 'run.json'}: not valid JSON" in told
    assert f"{refused.folder}: not stored: " in told
    assert stored_run(root, sound.folder).info.status == "FINISHED"
    (broken.folder / "run.json").unlink()
    refused.folder.rename(root / "tracking" / ".refused")


def test_an_attempt_of_an_earlier_version_has_its_scores_among_its_points(root: Path) -> None:
    journal = start(root, "earlier")
    journal.log(Measured(3, 1, "best", "sst", "accuracy", 0.5, 1.7e9))
    journal.end("FINISHED")
    said = read_json(journal.folder / "end.json")
    kept = {name: said[name] for name in said.keys() - {"metrics", "step"}}
    write_json(journal.folder / "end.json", kept)
    Follower(root).finish()
    run = stored_run(root, journal.folder)
    assert (run.data.metrics, run.info.status) == ({"best/sst": 0.5}, "FINISHED")


def test_the_second_follower_waits_or_leaves(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with follower(root, tmp_path / "first") as first:
        journal = start(root, "shared")
        log(journal, range(3))
        journal.flush()
        wait_for(lambda: offset(root, journal.folder) > 0, "the first point")
        monkeypatch.setattr("minbert.track.follower._PATIENCE", 0.2)
        assert Follower(root).follow() == Follower(root).finish() == 1
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()), "children would ignore them, too"
        assert capfd.readouterr().err.count("another follower works on") == 2
        journal.end("FINISHED")
        assert first.pid is not None
        os.kill(first.pid, signal.SIGTERM)  # asks for its last pass
        monkeypatch.setattr("minbert.track.follower._PATIENCE", 20.0)
        later = start(root, "later")
        log(later, range(7))
        later.end("FINISHED")
        assert Follower(root).finish() == 0
        first.join(20)
        assert first.exitcode == 0
    for one, points in ((journal, 3), (later, 7)):
        run = stored_run(root, one.folder)
        assert run.info.status == "FINISHED"
        assert sum(stored_points(root, run.info.run_id).values()) == points


def test_the_store_is_made_once_by_many(mlflow_store: Path) -> None:
    with sqlite3.connect(mlflow_store) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        names = [row[0] for row in connection.execute("SELECT name FROM experiments")]
    assert names == ["Default"]
    assert not list(mlflow_store.parent.glob(".mlflow.db.*.part*"))


def test_a_lost_store_is_filled_again_from_the_jobs_files(
    tmp_path: Path, mlflow_store: Path
) -> None:
    path = tmp_path / "mlflow.db"
    journal = start(tmp_path, "kept")
    log(journal, range(12))
    journal.end("FINISHED")
    for _ in range(2):
        shutil.copy(mlflow_store, path)
        process = processes.Process(target=Follower(tmp_path).finish)
        process.start()
        process.join(60)
        with sqlite3.connect(path) as connection:
            assert connection.execute("SELECT count(*) FROM metrics").fetchone() == (12,)
        path.unlink()


def test_a_killed_follower_loses_no_point(root: Path, tmp_path: Path) -> None:
    """Two jobs write on while the follower dies by SIGKILL twice."""
    jobs = [start(root, "first"), start(root, "second")]
    step = 0

    def cursors() -> list[int]:
        return [offset(root, job.folder) for job in jobs]

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
    Follower(root).finish()
    for job, status in zip(jobs, ["FAILED", "FINISHED"], strict=True):
        run = stored_run(root, job.folder)
        assert run.info.status == status
        assert stored_points(root, run.info.run_id) == written_points(Attempt(job.folder))
    assert stored_run(root, jobs[0].folder).data.tags["minbert.error"] == "loss is nan at step 7"


def test_a_killed_job_is_killed_and_its_rerun_supersedes_it(root: Path) -> None:
    code = f"""
        import os, signal
        from minbert.spec.protocol import Measured
        from minbert.track.journal import Journal
        run = {{"experiment": "paper", "key": "again", "seed": 3, "name": "again . s3"}}
        journal = Journal.start({str(root)!r}, run)
        for step in range(10):
            journal.log(Measured(step, 1, "train", "sst", "loss", 1.0, 1.7e9))
        journal.flush()
        with (journal.folder / "history.jsonl").open("ab") as handle:
            handle.write(b'{{"step": 11, "ep')
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    (killed,) = [a for a in attempts(root) if a.run["key"] == "again"]
    Follower(root).finish()
    run = stored_run(root, killed.name)
    assert run.info.status == "KILLED"
    assert run.info.end_time == 1_700_000_000_000, "when the last value was measured"
    assert sum(stored_points(root, run.info.run_id).values()) == 10
    assert "minbert.superseded" not in run.data.tags
    again = Follower(root)
    again.sweep()
    assert killed.name not in {attempt.name for attempt in again.pending()}

    other_seed = start(root, "again", seed=4)
    other_seed.end("FINISHED")
    rerun = start(root, "again", seed=3)
    Follower(root).finish()
    assert stored_run(root, killed.name).data.tags["minbert.superseded"] == rerun.folder.name
    assert "minbert.superseded" not in stored_run(root, other_seed.folder).data.tags
    assert stored_run(root, rerun.folder).info.status == "RUNNING"
    rerun.end("FINISHED")
    Follower(root).finish()
    assert stored_run(root, rerun.folder).info.status == "FINISHED"


def test_a_job_that_only_seemed_dead_is_taken_up_again(root: Path) -> None:
    journal = start(root, "revived")
    log(journal, range(5))
    journal.flush()
    (journal.folder / "lock").rename(journal.folder / "unseen")  # As if locks did not reach us.
    Follower(root).finish()
    assert stored_run(root, journal.folder).info.status == "KILLED"
    log(journal, range(5, 9))
    journal.end("FINISHED")
    Follower(root).finish()
    run = stored_run(root, journal.folder)
    assert run.info.status == "FINISHED"
    assert sum(stored_points(root, run.info.run_id).values()) == 9
