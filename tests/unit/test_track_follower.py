"""The follower on a real sqlite store: every point arrives, once, whatever is killed or changed."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from chaos.compare import written_points
from following import (
    finish,
    follower,
    log,
    processes,
    results,
    start,
    stored,
    stored_run,
    write_rows,
)
from mlflow.tracking import MlflowClient
from pipeline.project import wait_for

from minbert.commands.cli import main
from minbert.spec.protocol import Measured
from minbert.track.follower import Follower
from minbert.track.journal import Attempt, attempts
from minbert.track.store import Tag, open_store


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, mlflow_store: Path) -> Path:
    """Results whose store all tests share; each uses an experiment or keys of its own."""
    return results(tmp_path_factory.mktemp("results").resolve(), mlflow_store)


@pytest.fixture
def own(tmp_path: Path, mlflow_store: Path) -> Path:
    return results(tmp_path.resolve(), mlflow_store)


@pytest.mark.parametrize(
    ("uri", "place"), [("sqlite:///runs.db", "mlflow-artifacts:/paper"), ("http://host", None)]
)
def test_a_server_decides_itself_where_files_are(
    uri: str, place: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    client = Mock(get_experiment_by_name=Mock(return_value=None))
    about = {"experiment": "paper", "started": 1.7e9, "name": "one"}
    Follower(tmp_path)._create(client, "attempt", about)
    assert client.create_experiment.call_args.args[1] == place


def test_a_whole_run(root: Path) -> None:
    """Names, params, every point, status, experiment and its views."""
    params = {"variant": "1-bert", "tasks": "sst", "long": "x" * 9000}
    params |= {f"setting{n}": str(n) for n in range(150)}
    journal = start(root, "whole", params=params, tags={"commit": "abc"}, started=1.7e9)
    log(journal, range(1, 2501), lambda step: 1 / step)
    for step, value in enumerate([math.nan, math.inf, -math.inf], 1):
        journal.log(Measured(step, 1, "dev", "sst", "accuracy", value, 1.7e9))
    journal.log(Measured(2500, 1, "dev", "overall", "plain", 0.5, 1.7e9))
    scores = {"best/overall": 0.625}
    journal.end("FINISHED", params={"best_epoch": "3"}, metrics=scores, step=30, tags={"gpu": "0"})
    assert Follower(root).follow() == 0

    run, found = stored_run(root, journal.path), stored(root, journal.path).points
    assert found == written_points(Attempt(journal.path)) and found.total() == 2505
    assert ("dev/overall/plain", 2500, 1_700_000_000_000, 0.5, False) in found
    assert (run.info.run_name, run.info.status) == ("whole . s0", "FINISHED")
    assert run.info.start_time == 1_700_000_000_000
    assert run.data.params == {**params, "long": "x" * 6000, "best_epoch": "3"}
    assert (run.data.tags["commit"], run.data.tags["gpu"]) == ("abc", "0")
    experiment = open_store(root).get_experiment_by_name("paper")
    assert experiment is not None
    assert "best/TASK" in experiment.tags["mlflow.note.content"]
    assert "metrics.`best/sts`" in experiment.tags["mlflow.sharedViewState.minbert"]


def test_a_run_whose_place_is_lost_is_sent_again_harmlessly(root: Path) -> None:
    log = finish(root, "place")
    Follower(root).follow()
    before = stored(root, log)
    assert before.points.total() == 3 and before.tags[Tag.OFFSET] == str(log.stat().st_size)
    open_store(root).delete_tag(stored_run(root, log).info.run_id, Tag.OFFSET)
    Follower(root).follow()
    assert stored(root, log) == before


def test_what_cannot_be_stored_stops_nothing_else(
    own: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    refused, broken, sound = (start(own, key) for key in ("refused", "broken", "sound"))
    refused.log(Measured(1, 1, "dev", "x" * 300, "loss", 1.0, 1.0))
    for journal in (refused, broken, sound):
        journal.end("FAILED", error="loss is nan at step 7")
    broken.path.write_text("{")
    with pytest.raises(SystemExit, match="1"):
        main(["follow", "--results", str(own)])
    told = capfd.readouterr().err
    assert f"next start: 1 run, as {refused.path}: " in told and "answer" not in told
    run = stored(own, sound.path)
    assert (run.status, run.tags["minbert.error"]) == ("FAILED", "loss is nan at step 7")


def test_the_second_follower_waits_or_leaves(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with follower(root, tmp_path / "first") as first:
        journal = start(root, "shared")
        log(journal, range(3))
        wait_for(lambda: stored(root, journal.path).points, "the first point")
        monkeypatch.setattr("minbert.track.follower._PATIENCE", 0.2)
        assert Follower(root).follow() == 1
        assert "another follower already works on" in capfd.readouterr().err
        journal.end("FINISHED")
        assert first.pid is not None
        os.kill(first.pid, signal.SIGTERM)  # asks for its last pass
        monkeypatch.setattr("minbert.track.follower._PATIENCE", 600.0)
        later = finish(root, "later")
        assert Follower(root).follow() == 0
        first.join(600)
        assert first.exitcode == 0
    for path in (journal.path, later):
        run = stored(root, path)
        assert (run.status, run.points.total()) == ("FINISHED", 3)


def end_in_a_sweep(root: Path) -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()  # as libraries do
    one = Follower(root)
    sweep = one.sweep
    one.sweep = lambda: os.kill(os.getpid(), signal.SIGTERM) or sweep()  # type: ignore
    sys.exit(one.follow(os.getppid()))


def test_a_follower_that_is_asked_to_end_while_it_stores_goes_on_to_the_end(own: Path) -> None:
    path = finish(own, "k")
    (process := processes.Process(target=end_in_a_sweep, args=(own,))).start()
    process.join()
    assert process.exitcode == 0 and stored(own, path).status == "FINISHED"


def test_a_copy_goes_on_without_the_original_and_a_lost_store_is_filled_again(
    tmp_path: Path, mlflow_store: Path
) -> None:
    (first := tmp_path / "first").mkdir()
    results(first, mlflow_store)
    finish(first, "a")
    write_rows(first, "a", a={"best/sst": 0.5})
    Follower(first).follow()
    copied, lost = (Path(shutil.copytree(first, tmp_path / name)) for name in ("copy", "lost"))
    assert (lost / "mlflow.db-wal").stat().st_size, "as one that was killed leaves it"
    (lost / "mlflow.db").unlink()
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    for folder in (copied, lost):
        finish(folder, "b")
        write_rows(folder, "a", "b", a={"best/sst": 0.5}, b={"best/sst": 0.6})
        Follower(folder).follow()
        for attempt in attempts(folder):
            assert stored(folder, attempt.path).points == written_points(attempt)
        with sqlite3.connect(folder / "mlflow.db") as connection:
            assert str(first) not in "\n".join(connection.iterdump())
    assert {path: path.read_bytes() for path in first.rglob("*") if path.is_file()} == before


def test_a_follower_that_dies_between_two_calls_leaves_no_wrong_state(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one call to the store, then after two, and so on."""
    journal = start(own, "k", params={"a": 1})
    log(journal, range(3))
    journal.path.rename(own / "unseen")  # As if locks did not reach us.
    shutil.copy(own / "unseen", journal.path)
    Follower(own).follow()
    assert stored(own, journal.path).status == "KILLED"
    (own / "unseen").rename(journal.path)
    journal.end("FINISHED", metrics={"best/sst": 0.5})
    write_rows(own, "k", k={"best/sst": 0.5})
    made, limit = [], 0
    for name in ("create_run", "log_batch", "set_terminated", "set_experiment_tag"):
        real = getattr(MlflowClient, name)

        def call(*args: object, real: Callable[..., object] = real, **more: object) -> object:
            made.append(1)
            if len(made) > limit:
                raise KeyboardInterrupt
            return real(*args, **more)

        monkeypatch.setattr(MlflowClient, name, call)
    while limit < 5 or len(made) > limit:
        limit += 1
        made.clear()
        with suppress(KeyboardInterrupt):
            Follower(own).follow()
    for attempt in attempts(own):
        run = stored(own, attempt.path)
        assert (run.status, run.tags[Tag.SUPERSEDED]) == ("FINISHED", "no")
        assert run.points == written_points(attempt)


def die(root: Path) -> None:
    log(journal := start(root, "again", seed=3), range(1))
    with journal.path.open("ab") as handle:
        handle.write(b'{"step": 11, "ep')
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_job_is_killed_and_its_rerun_supersedes_it(root: Path) -> None:
    (job := processes.Process(target=die, args=(root,))).start()
    job.join()
    (killed,) = [a for a in attempts(root) if a.group == ("again", "3")]
    Follower(root).sweep()
    run = stored(root, killed.path)
    assert (run.status, run.points.total(), run.tags[Tag.SUPERSEDED]) == ("KILLED", 1, "no")
    ended = stored_run(root, killed.path).info.end_time
    assert ended == round(killed.path.stat().st_mtime * 1000), "when it last wrote"

    other_seed, rerun = finish(root, "again", seed=4), start(root, "again", seed=3)
    Follower(root).sweep()
    assert stored(root, killed.path).tags[Tag.SUPERSEDED] == rerun.path.stem
    assert stored(root, other_seed).tags[Tag.SUPERSEDED] == "no"
    assert stored(root, rerun.path).status == "RUNNING"


CHANGES: dict[str, Callable[[MlflowClient, str, str], object]] = {
    "run deleted": lambda client, run, _: client.delete_run(run),
    "experiment deleted": lambda client, _, experiment: client.delete_experiment(experiment),
    "experiment renamed": lambda client, _, name: client.rename_experiment(name, "mine"),
    # As `mlflow gc` does. It cannot be told from one of a store that is gone.
    "run gone": lambda client, run, _: client._tracking_client.store._hard_delete_run(run),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_behind_the_followers_back_stops_nothing(change: str, own: Path) -> None:
    """A deleted run stays so; an experiment that gets new runs comes back."""
    log(old := start(own, "old"), range(3))
    (one := Follower(own)).sweep()
    info = stored_run(own, old.path).info
    CHANGES[change](open_store(own), info.run_id, info.experiment_id)
    new = finish(own, "new")
    log(old, range(3, 6))
    old.end("FINISHED")
    assert one.follow() == Follower(own).follow() == 0
    deleted = change == "run deleted"
    stage = stored_run(own, old.path).info.lifecycle_stage
    assert stage == ("deleted" if deleted else "active")
    assert stored(own, old.path).points.total() == (3 if deleted else 6)
    run = stored_run(own, new).info
    assert (run.status, run.lifecycle_stage) == ("FINISHED", "active")
    experiment = open_store(own).get_experiment(run.experiment_id)
    assert (experiment.name, experiment.lifecycle_stage) == ("paper", "active")
