"""The parts of the benchmark that are meant for a GPU, as far as a CPU shows them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from benchmarks import sharing, threads
from minbert.plan.experiment import Experiment
from minbert.spec.config import load_config
from minbert.spec.resolve import StageRef

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "gpu.sh"


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


FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
    "-m pytest") echo tested on $MINBERT_TEST_DEVICE ;;
    "-m benchmarks") exit 3 ;;
    "-m benchmarks.sharing") sleep 60 & wait ;;
    "-m minbert") echo "sst 1"; echo "sst-finetune main"; exit 0 ;;
    "-m "*) exit 0 ;;
    *) exec {python} "$@" ;;
esac
"""
FAKE_CARDS = """#!/bin/sh
while echo sample; do sleep 0.1; done
"""


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def gpu_script(
    out: Path, *words: str, device: str = "cpu", script: Path = SCRIPT, **settings: str
) -> tuple[int, dict[str, str]]:
    """Run `gpu.sh`; return its exit code, and what its summary says by part."""
    command = ["bash", str(script), "--device", device, str(out), *words]
    done = subprocess.run(command, env={**os.environ, **settings}, check=False, text=True)
    lines = (out / "summary.md").read_text().splitlines()[4:]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in lines]
    return done.returncode, dict(rows)


def test_the_script_goes_on_after_parts_that_fail_or_take_too_long(tmp_path: Path) -> None:
    python = executable(tmp_path / "fake" / "py", FAKE_PYTHON.format(python=sys.executable))
    executable(tmp_path / "fake" / "nvidia-smi", FAKE_CARDS)
    path = f"{tmp_path / 'fake'}:{os.environ['PATH']}"
    code, outcomes = gpu_script(
        tmp_path / "out", PYTHON=str(python), PATH=path, LIMIT_sharing="1", LIMIT_demo="0"
    )
    assert code == 1
    assert outcomes.pop("set-up").startswith("ok: torch ")
    assert outcomes.pop("nvidia-smi").split()[0] == "ok:"
    assert outcomes == {
        "tests": "ok",
        "bench": "failed (3)",
        "sharing": "timed out",
        "grid": "failed (1)",  # the plan has no stage of that name
        "plan": "ok",
        "rates in plan": "of stages trained alone on cpu: none, so they are assumed",
        "demo": "skipped: no time left",
    }
    assert len((tmp_path / "out" / "nvidia-smi.csv").read_text().splitlines()) > 5
    log = (tmp_path / "out" / "log.txt").read_text()
    assert "tested on cpu" in log and "no grid has the stage single-task/sst" in log


PLANNING_PYTHON = """#!/bin/sh
case "$1 $2" in
    "- cuda") echo torch on a fake ;;
    "-m snakemake") echo "$@"; [ ! -e {trained} ] && touch {trained} ;;
    *) exec {python} "$@" ;;
esac
"""


def test_stages_of_the_grid_are_trained_one_by_one(tmp_path: Path) -> None:
    """Found by name in the real plan, the short one first; the second one fails here."""
    text = PLANNING_PYTHON.format(python=sys.executable, trained=tmp_path / "trained")
    python = executable(tmp_path / "py", text)
    settings = {"PYTHON": str(python), "LIMIT_grid": "3000", "LIMIT_plan": "3000", "TOTAL": "6000"}
    code, outcomes = gpu_script(tmp_path / "out", "grid", "plan", device="cuda", **settings)
    assert (code, outcomes["grid"], outcomes["plan"]) == (1, "failed (1)", "ok")
    rates = "of stages trained alone on cuda: sst-finetune/main"
    assert outcomes["rates in plan"] == rates
    files = [ROOT / "config.yaml", ROOT / "benchmarks" / "grid.yaml"]
    plan = Experiment.read(load_config(files, {"device": "cuda"}), ROOT)
    refs = [("minbert-downstream", "sst-finetune", "main"), ("adapter-fusion", "full-mean", "sts")]
    log = (tmp_path / "out" / "log.txt").read_text()
    trained = re.findall(r"^-m snakemake .*/train/(\w+)/seed0/run\.json$", log, re.M)
    assert trained == [plan.train(StageRef(*ref)).key for ref in refs]


def test_the_script_measures_and_plans_on_a_cpu(tmp_path: Path) -> None:
    limits = {"LIMIT_bench": "3000", "LIMIT_plan": "3000", "TOTAL": "6000"}
    code, outcomes = gpu_script(tmp_path, "bench", "plan", PYTHON=sys.executable, **limits)
    assert (code, outcomes["bench"], outcomes["plan"]) == (0, "ok", "ok")
    assert "tests" not in outcomes
    assert (tmp_path / "bench.json").exists() and (tmp_path / "bench.png").exists()
    assert "GPU-hours" in (tmp_path / "log.txt").read_text()


def test_the_script_skips_what_its_python_has_no_packages_for(tmp_path: Path) -> None:
    text = f"""#!/bin/sh
exec {sys.executable} -c 'import sys, importlib.util as util
find = util.find_spec
util.find_spec = lambda name: None if name == "snakemake" else find(name)
del sys.argv[1]
exec(sys.stdin.read())' "$@"
"""
    python = executable(tmp_path / "bin" / "py", text)
    code, outcomes = gpu_script(tmp_path / "out", "grid", "demo", PYTHON=str(python))
    assert code == 0
    assert outcomes["grid"] == outcomes["demo"] == "skipped: no package snakemake"


def test_the_parts_limits_leave_time_for_the_last() -> None:
    text = SCRIPT.read_text()
    limits = re.findall(r"^(?:part \w+ |LIMIT_setup=\$\{LIMIT_setup:-)(\d+)", text, re.M)
    assert len(limits) == 6
    assert "TOTAL:-1200" in text and sum(map(int, limits)) <= 1200 - 180


PROJECT = """[project]
dependencies = ["torch>=2", "present>=1", "absent>=1"]
[project.optional-dependencies]
bench = ["optional==2"]
test = []
"""
BARE_PYTHON = """#!/bin/sh
case "$1 $2" in "-m venv") set -- -m venv --without-pip "$3" ;; esac
exec {python} "$@"
"""
SLOW_PIP = """#!/bin/sh
case "$1 $2" in
    "-m venv") {python} -m venv --without-pip "$3" && ln -sf "$0" "$3/bin/python"; exit ;;
    "-m pip") echo installing; exec sleep 600 ;;
esac
exec {python} "$@"
"""
OLD_DRIVER = """#!/bin/sh
echo '| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4 |'
"""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """A copy of the script whose project needs packages that its Python lacks; its environment.

    `WHEELS` has all of them but `absent`.
    """
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(SCRIPT, tmp_path / "benchmarks")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "requirements.lock").write_text("torch==2.0\nabsent==1\n")
    for name, version in (("present", "1"), ("optional", "2")):
        with zipfile.ZipFile(tmp_path / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            folder = f"{name}-{version}.dist-info"
            wheel.writestr(
                f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
            wheel.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{folder}/RECORD", "")
    executable(tmp_path / "bin" / "python3", BARE_PYTHON.format(python=sys.executable))
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return {"PATH": path, "WHEELS": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}


def test_the_script_installs_what_it_can_and_names_the_rest(
    bare: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "benchmarks" / "gpu.sh"
    _, outcomes = gpu_script(tmp_path / "out", "demo", script=script, LIMIT_demo="0", **bare)
    assert outcomes["set-up"].startswith("ok: torch ")
    assert outcomes["set-up"].endswith("; not installed: absent>=1")


def test_set_up_has_a_limit(bare: dict[str, str], tmp_path: Path) -> None:
    executable(tmp_path / "bin" / "python3", SLOW_PIP.format(python=sys.executable))
    script, began = tmp_path / "benchmarks" / "gpu.sh", time.monotonic()
    settings = {**bare, "LIMIT_demo": "0", "LIMIT_setup": "10"}
    _, outcomes = gpu_script(tmp_path / "out", "demo", script=script, **settings)
    assert outcomes["set-up"].endswith("; not installed: present>=1 absent>=1 optional==2")
    assert time.monotonic() - began < 600


def test_the_script_ends_without_a_gpu_that_torch_sees(
    bare: dict[str, str], tmp_path: Path
) -> None:
    """Before it installs anything; it says which CUDA the driver has, which may be too old."""
    executable(tmp_path / "bin" / "nvidia-smi", OLD_DRIVER)
    executable(tmp_path / "bin" / "python3", SLOW_PIP.format(python=sys.executable))
    script = tmp_path / "benchmarks" / "gpu.sh"
    code, outcomes = gpu_script(tmp_path / "out", script=script, device="cuda", **bare)
    assert code == 1 and list(outcomes) == ["set-up"]
    assert "sees no CUDA device; newest CUDA of the driver: 12.4" in outcomes["set-up"]
    assert "(see CUDA in docs/cluster.md)" in outcomes["set-up"]
    assert "installing" not in (tmp_path / "out" / "log.txt").read_text()
