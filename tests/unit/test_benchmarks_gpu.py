"""The parts of the benchmark that are meant for a GPU, as far as a CPU shows them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from recording import Again

from benchmarks import __main__ as command
from benchmarks import ours as sides
from benchmarks import sharing, threads
from benchmarks.cases import CASES, Case, by_graphs
from benchmarks.report import table
from benchmarks.run import Bench
from minbert.train import loop as loops
from minbert.train.graphs import Graphs
from minbert.train.step import Gradients

CPU = torch.device("cpu")


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> list[Again]:
    """Let sides record on a CPU; return their recorders."""
    made: list[Again] = []

    def record(gradients: Gradients, device: torch.device, say: Any) -> bool:
        made.append(Again())
        gradients.graphs = Graphs(gradients, made[-1], say)
        return True

    monkeypatch.setattr(sides, "record_graphs", record)
    monkeypatch.setattr(loops, "embeddings", lambda module: ())
    return made


def test_training_by_graphs_is_held_against_training_without(
    recorders: list[Again], tmp_path: Path
) -> None:
    bench = Bench(tmp_path, "tiny", CPU, "fp32", repeats=1)
    (case,) = by_graphs([Case("SST 16", {"sst": {}}, quick=True)])
    row = bench.measure(case)
    assert row.other_name == "the same without CUDA graphs"
    assert "SST 16, CUDA graphs" in table([row])
    assert row.losses_differ_by is not None and row.losses_differ_by < 1e-4
    # Two of three turns compared; one before, one not counted and one measured.
    compared, timed = (recorder.played for recorder in recorders)
    assert compared >= 2 * 4 and timed >= 3 * 4


def test_what_trains_is_measured_by_graphs_once() -> None:
    names = [case.name for case in by_graphs(CASES["minilm"])]
    assert "1-bert, PCGrad, CUDA graphs" in names
    assert len(set(names)) == len(names)
    assert not [name for name in names if "dev" in name or "cached" in name or "student" in name]


def test_no_graphs_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, "tiny", CPU, "fp32", repeats=1)
    with pytest.raises(ValueError, match="for fine-tuning on a GPU"):
        bench.measure(Case("SST 16", {"sst": {}}, other="ordinary"))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--graphs", "--device", "cpu"])
    with pytest.raises(SystemExit, match="needs a CUDA GPU"):
        command.main()
    with pytest.raises(SystemExit, match="needs a CUDA GPU"):
        sharing.main(["--graphs", "--device", "cpu"])


def test_a_failed_recording_ends_the_measurement() -> None:
    with pytest.raises(ValueError, match="why"):
        sides.refuse("why")


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
