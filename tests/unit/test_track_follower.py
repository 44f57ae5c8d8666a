"""The follower on a real sqlite store: every row arrives, once, whatever is killed or changed."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from chaos.compare import Point, read_store, written_points
from following import (
    finish,
    follower,
    log,
    offset,
    results,
    start,
    stored_run,
    wait_for,
    write_page,
)
from mlflow.tracking import MlflowClient

from minbert.commands.cli import main
from minbert.spec.protocol import Measured
from minbert.track.follower import Follower
from minbert.track.journal import Attempt, Journal, attempts
from minbert.track.store import Tag, open_store


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, mlflow_store: Path) -> Path:
    """Results whose store all tests share; each uses an experiment or keys of its own."""
    return results(tmp_path_factory.mktemp("results").resolve(), mlflow_store)


def points(root: Path, attempt: Path) -> dict[Point, int]:
    return read_store(root / "mlflow.db").points[stored_run(root, attempt).info.run_id]


def test_a_whole_run(root: Path) -> None:
    """Names, params, every point, status, experiment and its views."""
    params = {"variant": "1-bert", "tasks": "sst", "long": "x" * 9000}
    params |= {f"setting{n}": str(n) for n in range(150)}
    journal = start(root, "whole", params=params, tags={"commit": "abc"}, started=1.7e9)
    log(journal, range(1, 2501), lambda step: 1 / step)
    for step, value in enumerate([math.nan, math.inf, -math.inf], 1):
        journal.log(Measured(step, 1, "dev", "sst", "loss", value, 1.7e9))
    journal.log(Measured(2500, 1, "dev", "overall", "odd(name)", 0.5, 1.7e9))
    scores = {"best/overall": 0.625}
    journal.end("FINISHED", params={"best_epoch": "3"}, metrics=scores, step=30, tags={"gpu": "0"})
    Follower(root).finish()

    run, found = stored_run(root, journal.folder), points(root, journal.folder)
    assert found == written_points(Attempt(journal.folder)) and sum(found.values()) == 2505
    assert ("dev/overall/odd_name_", 2500, 1_700_000_000_000, 0.5, False) in found
    assert (run.info.run_name, run.info.status) == ("whole . s0", "FINISHED")
    assert run.info.start_time == 1_700_000_000_000
    assert run.data.params == {**params, "long": "x" * 6000, "best_epoch": "3"}
    assert (run.data.tags["commit"], run.data.tags["gpu"]) == ("abc", "0")
    experiment = open_store(root).client.get_experiment_by_name("paper")
    assert experiment is not None
    assert "best/TASK" in experiment.tags["mlflow.note.content"]
    assert "metrics.`best/sts`" in experiment.tags["mlflow.sharedViewState.minbert"]


def test_a_run_whose_place_is_lost_is_sent_again_harmlessly(root: Path) -> None:
    """As by a follower that was killed between the two."""
    journal = finish(root, "place")
    Follower(root).finish()
    run, before = stored_run(root, journal.folder), points(root, journal.folder)
    assert sum(before.values()) == 3 and run.data.tags[Tag.OFFSET] == "ended"
    client = open_store(root).client
    for lose in (client.delete_tag, lambda *at: client.set_tag(*at, "0")):
        lose(run.info.run_id, Tag.OFFSET)
        Follower(root).finish()
        assert stored_run(root, journal.folder).data.tags[Tag.OFFSET] == "ended"
        assert points(root, journal.folder) == before


def test_nothing_to_store_imports_no_mlflow(tmp_path: Path) -> None:
    code = (
        "import sys; from minbert.track.follower import Follower; "
        f"Follower({str(tmp_path)!r}).finish(); "
        "print('mlflow' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (out.stdout, out.stderr) == ("False\n", "")
    assert not (tmp_path / "mlflow.db").exists()


def test_what_cannot_be_stored_stops_nothing_else(
    tmp_path: Path, mlflow_store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = results(tmp_path.resolve(), mlflow_store)
    broken, refused, sound = (start(root, key) for key in ("broken", "refused", "sound"))
    said = (broken.folder / "run.json").read_text()
    (broken.folder / "run.json").write_text("{")
    refused.log(Measured(1, 1, "dev", "x" * 300, "loss", 1.0, 1.0))
    for journal in (broken, refused, sound):
        journal.end("FINISHED")
    command = ["follow", "--once", "--results", str(root)]
    with pytest.raises(SystemExit) as ended:
        main(command)
    told = capfd.readouterr().err
    assert f"{broken.folder}: not stored: {broken.folder / 'run.json'}: not valid JSON" in told
    assert f"{refused.folder}: not stored: " in told and "answer" not in told
    assert ended.value.code == 1 and f"next start: 2 runs, as {broken.folder.name}\n" in told
    assert stored_run(root, sound.folder).info.status == "FINISHED"
    (broken.folder / "run.json").write_text(said)
    shutil.rmtree(refused.folder)
    main(command)
    assert stored_run(root, broken.folder).info.status == "FINISHED"
    assert capfd.readouterr().err == ""


def test_the_second_follower_waits_or_leaves(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with follower(root, tmp_path / "first") as first:
        journal = start(root, "shared")
        log(journal, range(3))
        wait_for(lambda: offset(root, journal.folder) > 0, "the first point")
        monkeypatch.setattr("minbert.track.follower._PATIENCE", 0.2)
        assert Follower(root).follow() == Follower(root).finish() == 1
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()), "children would ignore them, too"
        assert capfd.readouterr().err.count("another follower works on") == 2
        journal.end("FINISHED")
        assert first.pid is not None
        os.kill(first.pid, signal.SIGTERM)  # asks for its last pass
        monkeypatch.setattr("minbert.track.follower._PATIENCE", 20.0)
        later = finish(root, "later")
        assert Follower(root).finish() == 0
        first.join(20)
        assert first.exitcode == 0
    for one in (journal, later):
        assert stored_run(root, one.folder).info.status == "FINISHED"
        assert sum(points(root, one.folder).values()) == 3


def test_the_store_is_made_once_by_many(mlflow_store: Path) -> None:
    with sqlite3.connect(mlflow_store) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        names = [row[0] for row in connection.execute("SELECT name FROM experiments")]
    assert names == ["Default"]
    assert not list(mlflow_store.parent.glob(".mlflow.db.*.part*"))


def test_a_copy_goes_on_without_the_original_and_a_lost_store_is_filled_again(
    tmp_path: Path, mlflow_store: Path
) -> None:
    first = tmp_path / "first"
    first.mkdir()
    results(first, mlflow_store)
    (first / "tables").mkdir()
    (first / "tables" / "paper.md").write_text("| a |")
    finish(first, "a")
    write_page(first, 1.0, ("a",), a={"best/sst": 0.5})
    Follower(first).finish()
    copied, lost = (Path(shutil.copytree(first, tmp_path / name)) for name in ("copy", "lost"))
    assert (lost / "mlflow.db-wal").stat().st_size, "as one that was killed leaves it"
    (lost / "mlflow.db").unlink()
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    for folder in (copied, lost):
        finish(folder, "b")
        write_page(folder, 2.0, ("a", "b"), a={"best/sst": 0.5}, b={"best/sst": 0.6})
        Follower(folder).finish()
        for attempt in attempts(folder):
            assert sum(points(folder, attempt.path).values()) == 3
        assert len(list((folder / "mlartifacts").rglob("paper.md"))) == 1 + (folder is lost)
        with sqlite3.connect(folder / "mlflow.db") as connection:
            assert str(first) not in "\n".join(connection.iterdump())
    assert {path: path.read_bytes() for path in first.rglob("*") if path.is_file()} == before


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
        assert stored_run(root, job.folder).info.status == status
        assert points(root, job.folder) == written_points(Attempt(job.folder))
    assert stored_run(root, jobs[0].folder).data.tags["minbert.error"] == "loss is nan at step 7"


def test_a_killed_job_is_killed_and_its_rerun_supersedes_it(root: Path) -> None:
    code = f"""
        import os, signal
        from minbert.spec.protocol import Measured
        from minbert.track.journal import Journal
        run = {{"experiment": "paper", "key": "again", "seed": 3, "name": "again . s3"}}
        journal = Journal.start({str(root)!r}, run)
        journal.log(Measured(1, 1, "train", "sst", "loss", 1.0, 1.7e9))
        journal.flush()
        with (journal.folder / "history.jsonl").open("ab") as handle:
            handle.write(b'{{"step": 11, "ep')
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    (killed,) = [a for a in attempts(root) if a.group == ("again", "3")]
    one = Follower(root)
    one.sweep()
    assert killed.name not in {attempt.name for attempt in one.pending()}
    run = stored_run(root, killed.name)
    assert run.info.status == "KILLED" and Tag.SUPERSEDED not in run.data.tags
    assert run.info.end_time == 1_700_000_000_000, "when the last value was measured"
    assert sum(points(root, killed.path).values()) == 1

    other_seed = finish(root, "again", seed=4)
    rerun = start(root, "again", seed=3)
    Follower(root).finish()
    assert stored_run(root, killed.name).data.tags[Tag.SUPERSEDED] == rerun.folder.name
    assert Tag.SUPERSEDED not in stored_run(root, other_seed.folder).data.tags
    assert stored_run(root, rerun.folder).info.status == "RUNNING"
    rerun.end("FINISHED")
    Follower(root).finish()
    assert stored_run(root, rerun.folder).info.status == "FINISHED"


def test_a_job_that_only_seemed_dead_is_taken_up_again(root: Path) -> None:
    journal = start(root, "revived")
    log(journal, range(5))
    (journal.folder / "lock").rename(journal.folder / "unseen")  # As if locks did not reach us.
    Follower(root).finish()
    assert stored_run(root, journal.folder).info.status == "KILLED"
    log(journal, range(5, 9))
    journal.end("FINISHED")
    Follower(root).finish()
    assert stored_run(root, journal.folder).info.status == "FINISHED"
    assert sum(points(root, journal.folder).values()) == 9


Change = Callable[[MlflowClient, str, str], object]


def delete_for_good(client: MlflowClient, run: str, _: str) -> None:
    """Do what `mlflow gc` does."""
    client._tracking_client.store._hard_delete_run(run)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda client, run, _: client.delete_run(run), "deleted"),
        (lambda client, _, experiment: client.delete_experiment(experiment), "deleted"),
        (lambda client, _, experiment: client.rename_experiment(experiment, "mine"), "active"),
        (delete_for_good, "active"),  # It cannot be told from one of a store that is gone.
    ],
    ids=["run deleted", "experiment deleted", "experiment renamed", "run gone"],
)
@pytest.mark.parametrize("follows", [True, False])
def test_what_changes_behind_the_followers_back_stays_so_and_stops_nothing(
    change: Change, expected: str, follows: bool, tmp_path: Path, mlflow_store: Path
) -> None:
    root = results(tmp_path.resolve(), mlflow_store)
    one = Follower(root)
    old: Journal = start(root, "old")
    log(old, range(3))
    one.sweep()
    info = stored_run(root, old.folder).info
    change(open_store(root).client, info.run_id, info.experiment_id)
    new = finish(root, "new")
    log(old, range(3, 6))
    old.end("FINISHED")
    for _ in range(2):
        assert (one if follows else Follower(root)).finish() == 0
    assert stored_run(root, old.folder).info.lifecycle_stage == expected
    assert sum(points(root, old.folder).values()) == (6 if expected == "active" else 3)
    run = stored_run(root, new.folder)
    assert (run.info.status, run.info.lifecycle_stage) == ("FINISHED", "active")
    assert sum(points(root, new.folder).values()) == 3
    experiment = open_store(root).client.get_experiment(run.info.experiment_id)
    assert (experiment.name, experiment.lifecycle_stage) == ("paper", "active")
