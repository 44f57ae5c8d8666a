"""A results folder that was moved or copied: its store names its own files, and goes on there."""

from __future__ import annotations

import os
import shutil
import sqlite3
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from following import log, results, start, stored_points, stored_run
from serving import free_port, serving

from minbert.base.errors import UserError
from minbert.track.follower import Follower
from minbert.track.journal import attempts
from minbert.track.store import open_store, own_store, relocate_store


def run(root: Path, key: str) -> Path:
    """Leave a run with weights below `root`; return its attempt's folder."""
    weights = root / "store" / key / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_text(f"weights of {key}")
    journal = start(root, key)
    log(journal, range(3))
    best = {"best/overall": 0.5}
    journal.end("FINISHED", artifacts={"model.safetensors": weights}, metrics=best, step=3)
    return journal.folder


@pytest.fixture
def made(tmp_path: Path, mlflow_store: Path) -> Path:
    """A results folder with a stored run and one that is not stored yet."""
    root = tmp_path.resolve() / "first, 100 %"
    root.mkdir()
    results(root, mlflow_store)
    run(root, "a")
    Follower(root).finish()
    client = open_store(root).client
    client.create_registered_model("paper")
    source = f"{stored_run(root, attempts(root)[0].name).info.artifact_uri}/model.safetensors"
    client.create_model_version("paper", source)
    run(root, "b")
    return root


def texts(root: Path) -> str:
    """Return all that the store of `root` holds."""
    with sqlite3.connect(root / "mlflow.db") as connection:
        return "\n".join(connection.iterdump())


def listing(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_a_moved_folder_is_whole_and_goes_on(
    made: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Across disks: all files are new ones, and the old folder is gone."""
    moved = tmp_path.resolve() / "second"
    shutil.copytree(made, moved)
    shutil.rmtree(made)
    port = free_port()
    with serving(moved, port):
        assert str(made) not in texts(moved)
        one = stored_run(moved, next((moved / "tracking").glob("*-a-*")))
        query = urllib.parse.urlencode({"run_uuid": one.info.run_id, "path": "model.safetensors"})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/get-artifact?{query}") as reply:
            assert reply.read() == b"weights of a"

    # What was stored before is not stored again, and what was not is.
    run(moved, "c")
    Follower(moved).finish()
    assert "not attached" not in capfd.readouterr().err
    assert not made.exists()
    for attempt in attempts(moved):
        found = stored_run(moved, attempt.name)
        kept = Path(str(found.info.artifact_uri)) / "model.safetensors"
        assert kept.is_relative_to(moved)
        assert kept.read_text() == f"weights of {attempt.run['key']}"
        assert sum(stored_points(moved, found.info.run_id).values()) == 4
    (version,) = open_store(moved).client.search_model_versions("name = 'paper'")
    assert Path(version.source).read_text() == "weights of a"
    assert Path(version.source).is_relative_to(moved)
    assert os.path.samefile(kept, moved / "store" / "c" / "model.safetensors")


def test_a_follower_on_a_copy_leaves_the_original_alone(made: Path, tmp_path: Path) -> None:
    copied = tmp_path.resolve() / "copy"
    shutil.copytree(made, copied)
    before = listing(made)
    run(copied, "c")
    Follower(copied).finish()
    assert listing(made) == before
    assert str(made) not in texts(copied)
    Follower(made).finish()
    assert str(copied) not in texts(made)


def test_a_store_that_is_where_it_was_made_or_elsewhere_is_left_as_it_is(
    made: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    before = texts(made)
    capfd.readouterr()
    relocate_store(made, own_store(made))
    relocate_store(tmp_path / "other", own_store(made))
    assert texts(made) == before
    assert capfd.readouterr().err == ""


def test_paths_that_cannot_be_put_right_are_reported(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path.resolve() / "copy"
    shutil.copytree(made, copied)
    connect = sqlite3.connect

    def read_only(path: Path, **options: float) -> sqlite3.Connection:
        return connect(f"file:{path}?mode=ro", uri=True, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr("minbert.track.store.sqlite3.connect", read_only)
    with pytest.raises(UserError, match=r"copy/mlflow.db cannot be opened and changed .*readonly"):
        relocate_store(copied, own_store(copied))
    monkeypatch.undo()
    assert str(made) in texts(copied), "half of the paths are changed"
    open_store(copied)
    assert str(made) not in texts(copied)
