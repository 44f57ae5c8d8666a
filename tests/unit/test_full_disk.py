"""Disks that are full or closed: nothing half written, the file named, on with what was done."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chaos.compare import written_points
from following import log, start, stored
from small_disk import SmallDisk, read_only, small_disk

from minbert.base.errors import explain_os_error
from minbert.base.files import write_text
from minbert.commands.cli import main
from minbert.commands.steps import load_job, run_job
from minbert.plan.describe import write
from minbert.plan.outputs import load_plan
from minbert.plan.plan import Plan
from minbert.predict.predict import predict
from minbert.spec.resolve import StageRef
from minbert.track.follower import Follower
from minbert.track.journal import Attempt, attempts

WRITTEN = ("model.safetensors", "predictions.parquet")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", "24m") as made:
        yield made


def test_a_training_goes_on_when_a_full_disk_has_room(disk: SmallDisk, trained_plan: Plan) -> None:
    """Each time a little more room, so that another file is the first that does not fit."""
    root = disk.folder / "results"
    shutil.copytree(trained_plan.root, root)
    node = trained_plan.train(StageRef("one", "three", "main"))
    out = node.folder(root, 0)
    expected = {name: (out / name).read_bytes() for name in WRITTEN}
    shutil.rmtree(out)
    shutil.rmtree(root / "tracking")
    failed = set()
    for room in range(0, 400_000, 4096):
        disk.fill(room)
        try:
            run_job(load_job(root, "train", node.key, 0, threads=1))
        except OSError as error:
            told = explain_os_error(error)
            assert told and "No space left on device" in told and "run the same command" in told
            failed.add(Path(error.filename).name if ".jsonl" not in error.filename else "log")
        else:
            break
        finally:
            disk.free()
        assert not [*root.rglob("*.part")], "half a file is left"
    assert {name: (out / name).read_bytes() for name in WRITTEN} == expected
    assert {"model.safetensors", "predictions.parquet", "log"} <= failed
    last = attempts(root)[-1]
    assert last.end()["status"] == "FINISHED"
    curves = [of for of in last.read()[0]["points"] if of[0].startswith(("train/", "dev/"))]
    assert len(curves) == pq.read_metadata(out / "history.parquet").num_rows


def test_a_full_disk_has_one_line_on_the_command_line_and_other_errors_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "results/model.safetensors")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("minbert.publish.publish.publish_partial", fail)
    words = ["publish-partial", "--plan", "00", "--results", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "minbert: cannot write results/model.safetensors: No space left on device; make room "
        "(`minbert gc` lists what is no longer needed) and run the same command again: finished "
        "results are kept\n"
    )
    error = FileNotFoundError(errno.ENOENT, "No such file", "scores.parquet")
    with pytest.raises(FileNotFoundError):
        main(words)


def test_a_folder_in_the_place_of_a_file_is_told_as_that(tmp_path: Path) -> None:
    """By the name that people know, not that of the file which was to get it."""
    (tmp_path / "run.json").mkdir()
    with pytest.raises(OSError) as raised:
        write_text(tmp_path / "run.json", "{}")
    told = f"cannot read or write {tmp_path / 'run.json'}: Is a directory"
    assert str(explain_os_error(raised.value)).startswith(told)


def test_a_store_on_a_full_disk_gets_every_point_when_there_is_room(
    disk: SmallDisk, mlflow_store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = disk.folder / "results"
    journal = start(root, "full")
    log(journal, range(3000))
    follower = Follower(root)
    disk.fill(4096)
    follower.sweep()
    assert "jobs go on" in capfd.readouterr().err
    assert not [*root.glob("mlflow.db*"), *root.glob(".mlflow.db.*part*")], "half a store"
    disk.free()
    shutil.copy(mlflow_store, root / "mlflow.db")

    follower.sweep()
    assert not follower.failing
    log(journal, range(3000, 9000))
    journal.end("FINISHED")
    for room in (0, 40_000, 200_000):
        disk.fill(room)
        follower.sweep()
        assert follower.failing or follower.left
    disk.free()
    follower.sweep()
    run = stored(root, journal.path)
    assert run.status == "FINISHED"
    assert run.points == written_points(Attempt(journal.path)) and run.points.total() == 9000


def test_a_full_log_stops_neither_follower_nor_training(disk: SmallDisk) -> None:
    disk.fill()
    code = (
        "import sys\n"
        "from minbert.base.progress import Progress\n"
        "from minbert.track.store import say\n"
        "say('x' * 9000)\n"
        "Progress('a').say('x' * 9000)\n"
        "print('on')"
    )
    with (disk.folder / "log").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, check=False
        )
    assert ended.stdout == b"on\n"


REPOSITORY = Path(__file__).parents[2]
BUILTIN = ("data=builtin", "backbone=builtin", "grids=[hybrid-bert]")


def test_results_not_written_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results").write_text("no folder")
    place, words = tmp_path / "results" / "minilm", ["plan", "--directory", str(REPOSITORY)]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--config", *BUILTIN, f"results={place}"])
    told = capsys.readouterr().err
    assert ended.value.code == 2 and f"{place}" in told and "Not a directory" in told
    (tmp_path / "source").mkdir()
    with read_only(tmp_path / "shown", tmp_path / "source") as folder:
        words = [*BUILTIN, f"results={folder / 'results'}"]
        made = load_plan([REPOSITORY / "config.yaml"], REPOSITORY, words)
        with pytest.raises(OSError) as raised:
            write(made)
    told = str(explain_os_error(raised.value))
    assert told.startswith(f"cannot read or write {tmp_path / 'shown'}")
    assert "Read-only file system; make it readable and its folder writable, or choose" in told


def test_reading_needs_no_right_to_write(
    trained_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with read_only(tmp_path / "shown", trained_plan.root) as root:
        predict(root, "one/frozen", task="sst", sentences=["a film"], device="cpu")
        words = ["one/three", "--results", str(root)]
        main(["submit", *words, "--out", str(tmp_path / "out")])
        assert (tmp_path / "out" / "sst-dev-output.csv").exists()
        with pytest.raises(SystemExit):
            main(["submit", *words])
    assert "choose another place" in capsys.readouterr().err
