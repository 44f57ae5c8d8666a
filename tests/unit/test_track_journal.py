"""The journal and its reader: plain files, no mlflow."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from minbert.spec.protocol import Measured
from minbert.track.journal import Journal, attempts, newest_attempts
from minbert.track.store import network_disk, shown, sqlite_path, tracking_uri

RUN = {"experiment": "paper", "key": "abcdef0123456789", "seed": 0, "name": "one . sst . s0"}


def test_a_job_pays_for_no_heavy_import() -> None:
    code = "import sys, minbert.track.journal; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in out.stdout.split()}
    assert "minbert" in loaded
    assert not loaded & {"mlflow", "pandas", "torch", "numpy", "pyarrow", "pydantic", "socket"}


def test_rows_come_back_as_they_were_logged(tmp_path: Path) -> None:
    journal = Journal.start(tmp_path, RUN)
    values = [0.1, 1e-300, math.inf, -math.inf, math.nan]
    for step, value in enumerate(values, 1):
        journal.log(Measured(step, 1, "train", "sst", "loss", value, 1.7e9 + step / 8))
    journal.flush()
    (attempt,) = attempts(tmp_path)
    lines = (attempt.path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line, parse_constant=pytest.fail)["step"] for line in lines] == [
        1,
        2,
        3,
        4,
        5,
    ]
    rows, offset = attempt.rows(0, 100)
    assert [row.value for row in rows[:4]] == values[:4]
    assert math.isnan(rows[4].value)
    assert [row.time for row in rows] == [1.7e9 + step / 8 for step in range(1, 6)]
    assert offset == attempt.size()
    journal.end("FINISHED")


def test_a_part_of_a_line_is_left_and_a_broken_line_is_noted(tmp_path: Path) -> None:
    journal = Journal.start(tmp_path, RUN)
    journal.log(Measured(1, 1, "train", "sst", "loss", 1.0, 1.0))
    journal.flush()
    (attempt,) = attempts(tmp_path)
    path = attempt.path / "history.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0\0\0\n" + whole[:-9])
    rows, offset = attempt.rows(0, 100)
    assert [row.step for row in rows] == [1]
    assert offset == len(whole) + 4
    assert len(attempt.problems) == 1
    assert f"byte {len(whole)}" in attempt.problems[0]
    path.write_bytes(whole + b"\0\0\0\n" + whole)
    assert [row.step for row in attempt.rows(offset, 100)[0]] == [1]


def test_a_finished_job_says_how_it_ended(tmp_path: Path) -> None:
    journal = Journal.start(tmp_path, RUN)
    (attempt,) = attempts(tmp_path)
    assert attempt.alive()
    assert attempt.end() is None
    journal.end(
        "FAILED",
        error="loss is nan",
        artifacts={"a.txt": Path("a.txt"), "b.txt": tmp_path / "store" / "b.txt"},
        tags={"seconds": "3"},
        metrics={"best/sst": 0.5},
        step=9,
    )
    assert not attempt.alive()
    end = attempt.end()
    assert end is not None
    assert (end["status"], end["error"], end["tags"]) == ("FAILED", "loss is nan", {"seconds": "3"})
    assert (end["metrics"], end["step"]) == ({"best/sst": 0.5}, 9)
    assert end["artifacts"] == {
        "a.txt": Path.cwd() / "a.txt",
        "b.txt": tmp_path / "store" / "b.txt",
    }
    assert f'"b.txt": "{Path("store") / "b.txt"}"' in (journal.folder / "end.json").read_text()
    with pytest.raises(ValueError, match="closed"):
        journal.log(Measured(1, 1, "train", "sst", "loss", 1.0, 1.0))


def test_attempts_sort_by_their_start_and_drafts_are_not_seen(tmp_path: Path) -> None:
    for seed in (3, 1, 2):
        Journal.start(tmp_path, {**RUN, "seed": seed}).end("FINISHED")
    (tmp_path / "tracking" / ".draft.part").mkdir()
    assert [attempt.run["seed"] for attempt in attempts(tmp_path)] == [3, 1, 2]
    assert attempts(tmp_path / "nowhere") == []


COPIES = ["old-{}", "{} (copy)", f"x-{RUN['key']}-s0-9"]


@pytest.mark.parametrize("name", COPIES)
def test_a_users_copy_of_an_attempt_is_none(name: str, tmp_path: Path) -> None:
    first = Journal.start(tmp_path, RUN)
    first.end("FAILED", "out of memory")
    shutil.copytree(first.folder, first.folder.with_name(name.format(first.folder.name)))
    again = Journal.start(tmp_path, RUN)
    again.end("FINISHED")
    assert [attempt.path for attempt in attempts(tmp_path)] == [first.folder, again.folder]
    assert newest_attempts(tmp_path)[RUN["key"], "0"].path == again.folder


def test_where_the_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    assert tracking_uri(tmp_path) == "http://server:5000"
    assert sqlite_path("http://server:5000") is None
    monkeypatch.chdir(tmp_path)
    assert tracking_uri(tmp_path, "sqlite:///other.db") == f"sqlite:///{tmp_path}/other.db"


def test_passwords_are_not_shown() -> None:
    assert shown("at https://me:secret@host/x failed") == "at https://***@host/x failed"


@pytest.mark.parametrize(("kind", "network"), [("nfs", True), ("ext2/ext3", False), ("", False)])
def test_a_network_disk_is_known_by_its_kind(
    kind: str, network: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minbert.track.store.lines_of", lambda *_: [kind] if kind else [])
    assert network_disk(Path("/results")) == network
