"""Jobs' logs and their reader, and where the store is: plain files, no mlflow."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from following import log, start

from minbert.base.locks import take
from minbert.spec.protocol import Measured
from minbert.track.journal import Attempt, Journal, attempts, newest_attempts
from minbert.track.store import shown, sqlite_path, tracking_uri

HEAVY = {"mlflow", "pandas", "torch", "numpy", "pyarrow", "pydantic", "socket"}
FOLLOW = "from pathlib import Path; from minbert.track.follower import Follower; "
FOLLOW += "Follower(Path()).follow()"


@pytest.mark.parametrize(
    ("code", "absent"),
    [("import minbert.track.journal", HEAVY), (FOLLOW, {"mlflow"})],
    ids=["job", "follower of nothing"],
)
def test_no_heavy_import_without_need(code: str, absent: set[str], tmp_path: Path) -> None:
    words = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    out = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = {name.partition(".")[0] for name in out.stdout.split()}
    assert "minbert" in loaded and not loaded & absent and out.stderr == ""
    assert not (tmp_path / "mlflow.db").exists()


def test_points_come_back_as_they_were_logged(tmp_path: Path) -> None:
    """A broken line is skipped, and a part of one is left for the next time."""
    journal = start(tmp_path, "k")
    values = [0.1, 1e-300, math.inf, -math.inf, math.nan]
    for step, value in enumerate(values, 1):
        journal.log(Measured(step, 1, "dev", "sst", "loss", value, 1.7e9 + step / 8))
    (attempt,) = attempts(tmp_path)
    said, place = attempt.read()
    assert (said["name"], place) == ("k . s0", attempt.path.stat().st_size)
    found = [value for _, value, *_ in said["points"]]
    assert found[:4] == values[:4] and math.isnan(found[4])
    assert said["points"][0] == ["dev/sst/loss", 0.1, 1, 1.7e9 + 1 / 8]
    whole = attempt.path.read_bytes()
    attempt.path.write_bytes(whole + b"\0\0\0\n" + whole[:-9])
    said, end = attempt.read(place)
    assert [step for *_, step, _ in said["points"]] == [1, 2, 3, 4]
    assert end == len(whole) + 4 + whole.rindex(b"{")


def test_a_job_says_how_it_ended(tmp_path: Path) -> None:
    journal = start(tmp_path, "k")
    attempt = Attempt(journal.path)
    assert attempt.alive() and attempt.end() == {} and attempt.failure() is None
    journal.end("FAILED", error="loss is nan", tags={"a": "3"}, metrics={"best/sst": 0.5}, step=9)
    assert not attempt.alive() and attempt.failure() == "loss is nan"
    end = attempt.end()
    assert (end["tags"], end["points"]) == ({"a": "3"}, [["best/sst", 0.5, 9, end["ended"]]])


def test_a_job_takes_its_lock_though_somebody_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "log.jsonl").touch()
    asking = path.open()
    take(asking, shared=True)
    monkeypatch.setattr("time.sleep", lambda _: asking.close())  # once it waits
    journal = Journal(path)
    assert asking.closed and Attempt(path).alive()
    journal.end("FINISHED")


def test_the_newest_attempt_counts_and_copies_are_none(tmp_path: Path) -> None:
    first, *_, last = (start(tmp_path, "k", seed) for seed in (3, 1, 3))
    for name in ("old-{}", "{} (copy)", "x-k-s0-9"):
        shutil.copy(first.path, first.path.with_stem(name.format(first.path.stem)))
    log(last, range(1))
    assert [attempt.read()[0]["seed"] for attempt in attempts(tmp_path)] == [3, 1, 3]
    assert newest_attempts(tmp_path)["k", "3"].path == last.path
    assert attempts(tmp_path / "nowhere") == []


def test_where_the_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    assert tracking_uri(tmp_path) == "http://server:5000"
    assert sqlite_path("http://server:5000") is None
    monkeypatch.chdir(tmp_path)
    assert sqlite_path("sqlite:///other.db") == tmp_path / "other.db"
    assert shown("at https://me:secret@host/x failed") == "at https://***@host/x failed"
