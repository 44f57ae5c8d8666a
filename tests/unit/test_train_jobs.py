"""What a training job owes its machine: one at a time, whole files, plain lines."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minbert.base.errors import UserError, explain_os_error
from minbert.base.files import whole, write_text
from minbert.base.locks import exclusive_lock, patience, results_lock
from minbert.base.progress import Progress

PATIENCE = 600.0
"""Seconds to wait for another process."""

HOLD = """
import sys, time
from pathlib import Path
from minbert.base.locks import exclusive_lock, patience
with exclusive_lock(Path(sys.argv[1]), "training of a"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of `work`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "work")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert select.select([process.stdout], [], [], PATIENCE)[0], "it did not start"
        assert process.stdout.readline()
        yield process
        process.kill()


def test_a_second_process_is_refused_until_the_first_is_killed(holder: Any, tmp_path: Path) -> None:
    refused = rf"training of a is already running \(process {holder.pid} on .*work/lock\)"
    with (
        pytest.raises(UserError, match=refused),
        exclusive_lock(tmp_path / "work", "training of a"),
    ):
        pytest.fail("two at once")
    holder.kill()
    holder.wait()
    for _ in range(2):
        with exclusive_lock(tmp_path / "work", "training of a"):
            assert (tmp_path / "work" / "lock").read_text().startswith(f"{os.getpid()} on ")


def test_results_are_held_on_nfs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where `flock` is `lockf`, which asks more of how a file is open."""
    monkeypatch.setattr(fcntl, "flock", fcntl.lockf)
    for alone in (False, True):
        with results_lock(tmp_path, alone=alone):
            assert (tmp_path / "work" / "lock").exists()


def test_an_error_leaves_the_old_file_and_no_part_of_the_new(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_text(path, "old")
    with pytest.raises(KeyError), whole(path) as temporary:
        temporary.write_text("half of the n")
        assert path.read_text() == "old"
        raise KeyError
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]
    write_text(path, "new")
    assert path.read_text() == "new"


def test_progress_in_a_log_is_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Started, one step within 30 s, one after (which starts anew), and a last one.
    clock = iter([0.0, 10.0, 40.0, 40.0, 50.0])
    monkeypatch.setattr("minbert.base.progress.time.monotonic", lambda: next(clock))
    progress = Progress("sst . s0")
    progress.start(8)
    for epoch, loss in ((1, 0.9), (1, 0.5), (2, 0.4)):
        progress.update(epoch, loss)
    progress.epoch(2, 4, {"sst": 0.25, "sts": 0.5}, 0.375)
    out, lines = capsys.readouterr()
    assert out == ""
    assert lines.splitlines() == [
        "[sst . s0] step 2/8, epoch 1, loss 0.5000, 120 s left",
        "[sst . s0] epoch 2/4 dev: sst 0.250, sts 0.500; selection 0.3750",
    ]


def test_a_clusters_job_waits_for_the_one_that_it_replaces(
    holder: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: holder.kill())  # once it waits
    with exclusive_lock(tmp_path / "work", "training of a", patience=PATIENCE) as waited:
        assert waited
    assert capsys.readouterr().err == (
        f"waiting for process {holder.pid} on {os.uname().nodename}: training of a\n"
    )
    with exclusive_lock(tmp_path / "work", "training of a") as waited:
        assert not waited


def test_only_a_clusters_job_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert patience() == 0
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert patience() > 30  # Slurm's KillWait


def test_a_disk_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(OSError) as error, exclusive_lock(tmp_path / "work", "training of a"):
        pytest.fail("without a lock")
    assert "No locks available" in str(explain_os_error(error.value))
