"""What a job uses of its machine: measured beside a real training, shown by a real MLflow."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import psutil
import pytest
from following import stored_run
from trained_root import plan_of, run_folder

from minbert.base.files import write_text
from minbert.commands.steps import load_job, run_job
from minbert.devices.cards import VISIBLE
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.spec.protocol import Measured
from minbert.spec.resolve import StageRef
from minbert.track import system
from minbert.track.follower import Follower
from minbert.track.journal import SYSTEM, newest_attempts
from minbert.track.store import open_store
from minbert.track.system import watched

OF_ANY = {
    "system/cpu_utilization_percentage",
    "system/system_memory_usage_megabytes",
    "system/system_memory_usage_percentage",
    "system/process_cpu_utilization_percentage",
    "system/process_memory_usage_megabytes",
}
SMI = """#!/bin/sh
[ "$2 $4 $5" = "--query-gpu --id GPU-a" ] || exit 1
echo "$3" | tr , '\\n' | while read name; do case $name in
utilization.gpu) printf '37';; memory.used) printf ', 1000';; memory.total) printf ', 4000';;
power.draw) printf ', [N/A]\\n';; esac; done
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "SECONDS", 0.005)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_mlflow_shows_what_a_training_used_and_the_training_is_the_same(
    trained_plan: Plan, tmp_path: Path, mlflow_store: Path
) -> None:
    base = tmp_path / "base"
    shutil.copytree(trained_plan.base, base)
    plan = plan_of(base, tracking={"system_metrics": True})
    node = plan.train(StageRef("one", "three", "main"))
    assert node.key == trained_plan.train(StageRef("one", "three", "main")).key
    shutil.rmtree(run_folder(plan, "three"))
    shutil.rmtree(plan.root / "tracking")
    write(plan)
    run_job(load_job(plan.root, "train", node.key, 0, threads=1))

    for name in ("model.safetensors", "predictions.parquet"):
        made = (run_folder(plan, "three") / name).read_bytes()
        assert made == (run_folder(trained_plan, "three") / name).read_bytes()
    shutil.copy(mlflow_store, plan.root)
    Follower(plan.root).finish()
    (attempt,) = newest_attempts(plan.root).values()
    run, client = stored_run(plan.root, attempt.path), open_store(plan.root).client
    assert {name for name in run.data.metrics if name.startswith("system/")} == OF_ANY
    points = {name: client.get_metric_history(run.info.run_id, name) for name in OF_ANY}
    for found in points.values():
        assert [point.step for point in found] == list(range(1, len(found) + 1)) and len(found) > 2
        assert run.info.start_time <= found[0].timestamp <= run.info.end_time
    ours = points["system/process_memory_usage_megabytes"][-1].value
    assert ours == pytest.approx(psutil.Process().memory_info().rss / 1e6, rel=0.5)
    share = points["system/system_memory_usage_percentage"][-1].value
    used = points["system/system_memory_usage_megabytes"][-1].value
    assert 100 * used * 1e6 / psutil.virtual_memory().total == pytest.approx(share, abs=0.1)


def test_a_training_says_nothing_of_its_machine_unless_it_is_asked(trained_plan: Plan) -> None:
    rows = [row for a in newest_attempts(trained_plan.root).values() for row in a.rows()[0]]
    assert rows and SYSTEM not in {row.split for row in rows}


def measured(seconds: float) -> dict[str, list[float]]:
    """Keep a core busy for some seconds; return what was measured by then."""
    found: dict[str, list[float]] = {}
    with watched(lambda row: found.setdefault(row.task, []).append(row.value)):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            sum(range(10_000))
    return found


def test_a_busy_process_and_its_gpu_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(tmp_path / "nvidia-smi", SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv(VISIBLE, "GPU-a")
    found = measured(0.5)
    assert max(found["process_cpu_utilization_percentage"]) > 10
    assert max(found["cpu_utilization_percentage"]) > 5
    assert set(found["gpu_0_utilization_percentage"]) == {37}
    assert set(found["gpu_0_memory_usage_megabytes"]) == {1048.6}
    assert set(found["gpu_0_memory_usage_percentage"]) == {25}
    assert "gpu_0_power_usage_watts" not in found
    monkeypatch.setenv(VISIBLE, "")
    assert not any("gpu" in name for name in measured(0))


def test_a_full_disk_ends_the_measuring_and_not_the_training(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def log(row: Measured) -> None:
        raise OSError(28, "No space left on device")

    with watched(log):
        time.sleep(0.2)
    assert capsys.readouterr().err.count("no more system metrics: [Errno 28]") == 1
