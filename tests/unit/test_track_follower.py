"""The follower on a real sqlite store: every row arrives, once, whatever is killed or changed."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from chaos.compare import Point, written_points
from following import (
    finish,
    follower,
    log,
    processes,
    results,
    start,
    stored,
    stored_run,
    wait_for,
    write_page,
)
from mlflow.tracking import MlflowClient

from minbert.base.files import write_text
from minbert.commands.cli import main
from minbert.spec.protocol import Measured
from minbert.track.follower import Follower
from minbert.track.journal import Attempt, attempts
from minbert.track.store import Tag, open_store


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, mlflow_store: Path) -> Path:
    """Results whose store all tests share; each uses an experiment or keys of its own."""
    return results(tmp_path_factory.mktemp("results").resolve(), mlflow_store)


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

    run, found = stored_run(root, journal.folder), stored(root, journal.folder).points
    assert found == written_points(Attempt(journal.folder)) and found.total() == 2505
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
    before = stored(root, journal.folder)
    assert before.points.total() == 3 and before.tags[Tag.OFFSET] == "ended"
    client, run = open_store(root).client, stored_run(root, journal.folder).info.run_id
    for lose in (client.delete_tag, lambda *at: client.set_tag(*at, "0")):
        lose(run, Tag.OFFSET)
        Follower(root).finish()
        assert stored(root, journal.folder) == before


def test_what_cannot_be_stored_stops_nothing_else(
    tmp_path: Path, mlflow_store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = results(tmp_path.resolve(), mlflow_store)
    broken, refused, sound = (start(root, key) for key in ("broken", "refused", "sound"))
    refused.log(Measured(1, 1, "dev", "x" * 300, "loss", 1.0, 1.0))
    for journal in (broken, refused, sound):
        journal.end("FINISHED")
    (page := broken.folder / "run.json").write_text("{")
    with pytest.raises(SystemExit, match="1"):
        main(["follow", "--once", "--results", str(root)])
    told = capfd.readouterr().err
    assert f"{broken.folder}: not stored: {page}: not valid JSON" in told
    assert f"{refused.folder}: not stored: " in told and "answer" not in told
    assert f"next start: 2 runs, as {broken.folder.name}\n" in told
    assert stored(root, sound.folder).status == "FINISHED"


def test_the_second_follower_waits_or_leaves(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with follower(root, tmp_path / "first") as first:
        journal = start(root, "shared")
        log(journal, range(3))
        wait_for(lambda: stored(root, journal.folder).points, "the first point")
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
        run = stored(root, one.folder)
        assert (run.status, run.points.total()) == ("FINISHED", 3)


def test_a_copy_goes_on_without_the_original_and_a_lost_store_is_filled_again(
    tmp_path: Path, mlflow_store: Path
) -> None:
    (first := tmp_path / "first").mkdir()
    results(first, mlflow_store)
    write_text(first / "tables" / "paper.md", "| a |")
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
            assert stored(folder, attempt.path).points.total() == 3
        assert len(list((folder / "mlartifacts").rglob("paper.md"))) == 1 + (folder is lost)
        with sqlite3.connect(folder / "mlflow.db") as connection:
            assert str(first) not in "\n".join(connection.iterdump())
    assert {path: path.read_bytes() for path in first.rglob("*") if path.is_file()} == before


def test_a_killed_follower_loses_no_point(root: Path, tmp_path: Path) -> None:
    """A job writes on while the follower dies by SIGKILL twice."""
    job, steps = start(root, "first"), iter(range(0, 10**6, 20))
    for _ in range(2):
        before = stored(root, job.folder).points

        def moved(before: Counter[Point] = before) -> bool:
            log(job, range(step := next(steps), step + 20), math.sin)
            return stored(root, job.folder).points > before

        with follower(root, tmp_path / "told"):
            wait_for(moved, "points of the job")
    assert stored(root, job.folder).status == "RUNNING"
    job.end("FAILED", error="loss is nan at step 7")
    Follower(root).finish()
    run = stored(root, job.folder)
    assert (run.status, run.tags["minbert.error"]) == ("FAILED", "loss is nan at step 7")
    assert run.points == written_points(Attempt(job.folder))


def die(root: Path) -> None:
    log(journal := start(root, "again", seed=3), range(1))
    with (journal.folder / "history.jsonl").open("ab") as handle:
        handle.write(b'{"step": 11, "ep')
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_job_is_killed_and_its_rerun_supersedes_it(root: Path) -> None:
    (job := processes.Process(target=die, args=(root,))).start()
    job.join()
    (killed,) = [a for a in attempts(root) if a.group == ("again", "3")]
    (one := Follower(root)).sweep()
    assert killed.name not in {attempt.name for attempt in one.pending()}
    run = stored(root, killed.name)
    assert (run.status, run.points.total()) == ("KILLED", 1) and Tag.SUPERSEDED not in run.tags
    ended = stored_run(root, killed.path).info.end_time
    assert ended == 1_700_000_000_000, "when the last value was measured"

    other_seed, rerun = finish(root, "again", seed=4), start(root, "again", seed=3)
    Follower(root).finish()
    assert stored(root, killed.name).tags[Tag.SUPERSEDED] == rerun.folder.name
    assert Tag.SUPERSEDED not in stored(root, other_seed.folder).tags
    assert stored(root, rerun.folder).status == "RUNNING"


def test_a_job_that_only_seemed_dead_is_taken_up_again(root: Path) -> None:
    journal = start(root, "revived")
    log(journal, range(5))
    (journal.folder / "lock").rename(journal.folder / "unseen")  # As if locks did not reach us.
    Follower(root).finish()
    assert stored(root, journal.folder).status == "KILLED"
    log(journal, range(5, 9))
    journal.end("FINISHED")
    Follower(root).finish()
    run = stored(root, journal.folder)
    assert (run.status, run.points.total()) == ("FINISHED", 9)


CHANGES: dict[str, Callable[[MlflowClient, str, str], object]] = {
    "run deleted": lambda client, run, _: client.delete_run(run),
    "experiment deleted": lambda client, _, experiment: client.delete_experiment(experiment),
    "experiment renamed": lambda client, _, name: client.rename_experiment(name, "mine"),
    # As `mlflow gc` does. It cannot be told from one of a store that is gone.
    "run gone": lambda client, run, _: client._tracking_client.store._hard_delete_run(run),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_behind_the_followers_back_stays_so_and_stops_nothing(
    change: str, tmp_path: Path, mlflow_store: Path
) -> None:
    root = results(tmp_path.resolve(), mlflow_store)
    log(old := start(root, "old"), range(3))
    (one := Follower(root)).sweep()
    info = stored_run(root, old.folder).info
    CHANGES[change](open_store(root).client, info.run_id, info.experiment_id)
    new = finish(root, "new")
    log(old, range(3, 6))
    old.end("FINISHED")
    assert one.finish() == Follower(root).finish() == 0
    deleted = change.endswith(" deleted")
    stage = stored_run(root, old.folder).info.lifecycle_stage
    assert stage == ("deleted" if deleted else "active")
    assert stored(root, old.folder).points.total() == (3 if deleted else 6)
    run = stored_run(root, new.folder).info
    assert (run.status, run.lifecycle_stage) == ("FINISHED", "active")
    experiment = open_store(root).client.get_experiment(run.experiment_id)
    assert (experiment.name, experiment.lifecycle_stage) == ("paper", "active")
