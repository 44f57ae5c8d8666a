"""The journal and its reader, and where the store is: plain files, no mlflow."""

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
from minbert.track.store import on_network_disk, shown, sqlite_path, tracking_uri

RUN = {"experiment": "paper", "key": "abcdef0123456789", "seed": 0, "name": "one . s0"}


HEAVY = {"mlflow", "pandas", "torch", "numpy", "pyarrow", "pydantic", "socket"}


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import minbert.track.journal", HEAVY),
        ("from minbert.track.follower import Follower; Follower('.').finish()", {"mlflow"}),
    ],
    ids=["job", "follower of nothing"],
)
def test_no_heavy_import_without_need(code: str, absent: set[str], tmp_path: Path) -> None:
    words = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    out = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = {name.partition(".")[0] for name in out.stdout.split()}
    assert "minbert" in loaded and not loaded & absent and out.stderr == ""
    assert not (tmp_path / "mlflow.db").exists()


def test_rows_come_back_as_they_were_logged(tmp_path: Path) -> None:
    """A broken line is skipped, and a part of one is left for the next time."""
    journal = Journal.start(tmp_path, RUN)
    values = [0.1, 1e-300, math.inf, -math.inf, math.nan]
    for step, value in enumerate(values, 1):
        journal.log(Measured(step, 1, "train", "sst", "loss", value, 1.7e9 + step / 8))
    journal.flush()
    (attempt,) = attempts(tmp_path)
    whole = attempt.history.read_bytes()
    lines = [json.loads(line, parse_constant=pytest.fail) for line in whole.splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    rows, offset = attempt.rows(0, 100)
    assert [row.value for row in rows[:4]] == values[:4] and math.isnan(rows[4].value)
    assert [row.time for row in rows] == [1.7e9 + step / 8 for step in range(1, 6)]
    assert offset == attempt.size() == len(whole)
    attempt.history.write_bytes(whole + b"\0\0\0\n" + whole[:-9])
    rows, offset = attempt.rows(offset)
    assert ([row.step for row in rows], offset) == (
        [1, 2, 3, 4],
        len(whole) + 4 + whole.rindex(b"{"),
    )
    attempt.history.write_bytes(whole + b"\0\0\0\n" + whole)
    assert [row.step for row in attempt.rows(offset)[0]] == [5]


def test_a_job_says_how_it_ended(tmp_path: Path) -> None:
    journal = Journal.start(tmp_path, RUN)
    (attempt,) = attempts(tmp_path)
    assert attempt.alive() and attempt.end() is None and attempt.failure() is None
    journal.end("FAILED", error="loss is nan", tags={"a": "3"}, metrics={"best/sst": 0.5}, step=9)
    end = attempt.end()
    assert end is not None and not attempt.alive()
    assert (attempt.status, attempt.failure()) == ("FAILED", "loss is nan")
    assert (end["tags"], end["metrics"], end["step"]) == ({"a": "3"}, {"best/sst": 0.5}, 9)


def test_the_newest_attempt_counts_and_copies_are_none(tmp_path: Path) -> None:
    first, *_, last = (Journal.start(tmp_path, RUN | {"seed": seed}) for seed in (3, 1, 3))
    for name in ("old-{}", "{} (copy)", f"x-{RUN['key']}-s0-9", ".{}.part"):
        shutil.copytree(first.folder, first.folder.with_name(name.format(first.folder.name)))
    found = attempts(tmp_path)
    assert [attempt.run["seed"] for attempt in found] == [3, 1, 3]
    assert [attempt.newer for attempt in found] == [last.folder.name, None, None]
    assert newest_attempts(tmp_path)[RUN["key"], "3"].path == last.folder
    assert attempts(tmp_path / "nowhere") == []


def test_where_the_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    assert tracking_uri(tmp_path) == "http://server:5000"
    assert sqlite_path("http://server:5000") is None
    monkeypatch.chdir(tmp_path)
    assert tracking_uri(tmp_path, "sqlite:///other.db") == f"sqlite:///{tmp_path}/other.db"
    assert shown("at https://me:secret@host/x failed") == "at https://***@host/x failed"
    for kind, network in (("nfs", True), ("ext2/ext3", False)):
        monkeypatch.setattr("minbert.track.store.lines_of", lambda *_, kind=kind: [kind])
        assert on_network_disk(tmp_path) == network
