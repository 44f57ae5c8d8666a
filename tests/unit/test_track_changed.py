"""What changes in MLflow behind the follower's back, or is refused there, stops no other run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from following import log, results, start, stored_run
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import ErrorCode
from mlflow.tracking import MlflowClient

from minbert.base.files import write_json
from minbert.commands.cli import main
from minbert.spec.grid import ALL
from minbert.track.follower import Follower
from minbert.track.journal import Journal
from minbert.track.rows import ROWS
from minbert.track.store import GRID, Tag, open_store

BEST = {Tag.BEST: "v", Tag.BEST_SEED: "0", Tag.BEST_SCORE: "0.5", Tag.NOTE: "card"}


@pytest.fixture
def root(tmp_path: Path, mlflow_store: Path) -> Path:
    return results(tmp_path.resolve(), mlflow_store)


def begin(root: Path, key: str, seed: int = 0, paper: str = "paper") -> Journal:
    journal = start(root, key, seed, experiment=paper)
    log(journal, range(3))
    journal.flush()
    return journal


def finish(root: Path, key: str, seed: int = 0, paper: str = "paper") -> Journal:
    journal = begin(root, key, seed, paper)
    journal.end("FINISHED")
    return journal


def publish(root: Path) -> Journal:
    """Leave a grid's own run, with one row for training `old` and a model."""
    grid = start(root, "grid-paper", ALL, tags={Tag.KIND: GRID, Tag.COMPLETE: "True"})
    row = {"variant": "v", "label": "v", "seeds": [0], "stages": [["s", "old"]], "chosen": False}
    rows = [row | {"metrics": {"best/sst": 0.5}, "tags": {}}]
    write_json(grid.folder / ROWS, {"rows": rows, "keys": ["old"]})
    weights = root / "w.safetensors"
    weights.touch()
    grid.end("FINISHED", artifacts={"model/model.safetensors": weights}, tags=BEST)
    return grid


def told(root: Path, journal: Journal) -> tuple[str, str, int]:
    """Return a run's status, whether it is deleted, and the number of its points."""
    run = stored_run(root, journal.folder)
    points = open_store(root).client.get_metric_history(run.info.run_id, "train/sst/loss")
    return run.info.status, run.info.lifecycle_stage, len(points)


def delete(root: Path, journal: Journal) -> None:
    open_store(root).client.delete_run(stored_run(root, journal.folder).info.run_id)


def delete_for_good(root: Path, journal: Journal) -> None:
    """Do what `mlflow gc` does."""
    delete(root, journal)
    store = open_store(root).client._tracking_client.store
    store._hard_delete_run(stored_run(root, journal.folder).info.run_id)


def experiment(root: Path, change: Callable[[MlflowClient, str], None]) -> None:
    client = open_store(root).client
    found = client.get_experiment_by_name("paper")
    assert found is not None
    change(client, found.experiment_id)


WHOLE = ("FINISHED", "active", 3)


def test_a_deleted_run_stays_deleted_and_stops_none(root: Path) -> None:
    old = finish(root, "old")
    Follower(root).finish()
    delete(root, old)
    again, grid = finish(root, "old"), publish(root)
    assert Follower(root).finish() == 0
    assert told(root, again) == WHOLE and told(root, old) == ("FINISHED", "deleted", 3)
    assert stored_run(root, grid.folder).info.status == "FINISHED"
    delete(root, again)
    delete(root, grid)
    last, new = finish(root, "other"), publish(root)
    assert Follower(root).finish() == 0
    assert told(root, last) == WHOLE and told(root, again)[1] == "deleted"
    assert stored_run(root, new.folder).info.status == "FINISHED"
    client = open_store(root).client
    model = client.get_model_version_by_alias("paper", "best")
    assert model.run_id == stored_run(root, new.folder).info.run_id


@pytest.mark.parametrize("change", [delete, delete_for_good])
def test_a_run_that_is_deleted_as_it_is_followed_stops_none(
    root: Path, change: Callable[[Path, Journal], None], capfd: pytest.CaptureFixture[str]
) -> None:
    follower = Follower(root)
    old, other = begin(root, "old"), begin(root, "other")
    follower.sweep()
    change(root, old)
    again = finish(root, "old")
    log(old, range(3, 6))
    for journal in (old, other):
        journal.end("FINISHED")
    follower.sweep()
    assert follower.pending() == [] and not follower.failing
    assert told(root, again) == told(root, other) == WHOLE
    if change is delete:
        assert told(root, old) == ("RUNNING", "deleted", 3)
    else:  # It cannot be told from one of a store that is gone.
        assert told(root, old) == ("FINISHED", "active", 6)
    assert Follower(root).finish() == 0
    assert "not stored" not in capfd.readouterr().err


@pytest.mark.parametrize("follows", [True, False])
def test_a_deleted_experiment_comes_back_for_new_runs_only(root: Path, follows: bool) -> None:
    follower = Follower(root)
    old = finish(root, "old")
    follower.finish()
    experiment(root, lambda client, identity: client.delete_experiment(identity))

    def store() -> None:
        one = follower if follows else Follower(root)
        assert one.finish() == 0 and one.pending() == []

    elsewhere = finish(root, "elsewhere", paper="another")
    store()
    assert told(root, elsewhere) == WHOLE
    found = open_store(root).client.get_experiment_by_name("paper")
    assert found is not None and found.lifecycle_stage == "deleted"
    new = finish(root, "new")
    store()
    found = open_store(root).client.get_experiment_by_name("paper")
    assert found is not None and found.lifecycle_stage == "active"
    assert told(root, new) == WHOLE and told(root, old) == ("FINISHED", "deleted", 3)


def test_runs_of_a_renamed_experiment_are_not_sent_again(root: Path) -> None:
    old, live = finish(root, "old"), begin(root, "live")
    Follower(root).finish()
    experiment(root, lambda client, identity: client.rename_experiment(identity, "mine"))
    live.end("FINISHED")
    new = finish(root, "new")
    assert Follower(root).finish() == 0
    client = open_store(root).client
    for journal, name in ((old, "mine"), (live, "mine"), (new, "paper")):  # each is stored once
        assert told(root, journal) == WHOLE
        run = stored_run(root, journal.folder)
        assert client.get_experiment(run.info.experiment_id).name == name


@pytest.mark.parametrize(("code", "kind"), [("PERMISSION_DENIED", "grid"), ("INTERNAL_ERROR", "")])
def test_whatever_is_answered_for_one_run_stops_no_other(
    root: Path,
    code: str,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    send = MlflowClient.log_batch
    journals = [finish(root, key) for key in ("first", "second", "third")]
    grid = publish(root)
    odd = grid if kind == "grid" else journals[0]
    others = [journal for journal in (*journals, grid) if journal is not odd]

    def refuse(client: MlflowClient, run_id: str, **given: object) -> None:
        if client.get_run(run_id).data.tags.get(Tag.ATTEMPT) == odd.folder.name:
            raise MlflowException("not this one", ErrorCode.Value(code))
        send(client, run_id, **given)

    monkeypatch.setattr(MlflowClient, "log_batch", refuse)
    monkeypatch.setattr("sys.argv", ["minbert"])
    with pytest.raises(SystemExit) as ended:
        main(["follow", "--once", "--results", str(root)])
    assert ended.value.code == 1
    said = capfd.readouterr().err
    assert f"tracking: {odd.folder}: not stored: not this one\n" in said
    assert f"not stored yet, until the workflow's next start: 1 run ({odd.folder.name})\n" in said
    assert "answers again" not in said
    for journal in others:
        assert stored_run(root, journal.folder).info.status == "FINISHED"
    monkeypatch.undo()
    main(["follow", "--once", "--results", str(root)])
    assert stored_run(root, odd.folder).info.status == "FINISHED"
    assert capfd.readouterr().err == ""
