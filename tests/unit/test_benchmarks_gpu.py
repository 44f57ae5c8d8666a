"""The parts of the benchmark that are meant for a GPU, as far as a CPU shows them."""

from __future__ import annotations

import pytest
import torch

from benchmarks import sharing, threads

CPU = torch.device("cpu")


def test_sharing_tells_what_runs_do_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two take as long as one; the real thing with one alone, which takes as long as it takes.
    monkeypatch.setattr(sharing, "seconds", lambda runs, **told: 2.0)
    words = "--device cpu --precision fp32 --sizes tiny --runs 1 2 --steps 3 --repeats 2"
    sharing.main(words.split())
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| tiny | 1 | 24 (24 to 24) | 1.00 |",
        "| tiny | 2 | 48 (48 to 48) | 2.00 |",
    ]
    monkeypatch.setattr(sharing, "seconds", threads.seconds)
    sharing.main([*words.split(), "--runs", "1", "--repeats", "1"])
    assert capsys.readouterr().out.splitlines()[2].endswith("| 1.00 |")


def test_jobs_work_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    job = "import time; print('ready', flush=True); input(); time.sleep(1); print('done')"
    monkeypatch.setattr(threads, "JOB", job)
    assert 1 <= threads.seconds(3) < 2


def test_a_job_that_fails_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "JOB", "print('ready', flush=True); input()")
    with pytest.raises(SystemExit, match="before it was done"):
        threads.seconds(2)
