"""What a training job owes its machine: one at a time, no orphans, whole files, plain lines."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from minbert.base.errors import UserError
from minbert.base.files import read_json, whole, write_json, write_text
from minbert.base.locks import only_one, patience
from minbert.base.progress import Progress
from minbert.engine import device
from minbert.engine.checkpoints import Generators
from minbert.engine.device import choose_device, choose_precision, peak_device_memory

PATIENCE = 20.0
"""Seconds to wait for another process."""

HOLD = """
import sys, time
from pathlib import Path
from minbert.base.locks import only_one, patience
with only_one(Path(sys.argv[1]), "training of a"):
    print("held", flush=True)
    time.sleep(600)
"""
PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1]])
time.sleep(600)
"""
CHILD = """
import time
from minbert.base.process import end_with_parent
end_with_parent()
print("ready", flush=True)
time.sleep(600)
"""

Started = subprocess.Popen[str]


@pytest.fixture
def start() -> Iterator[Any]:
    """Return a function that starts Python code and waits for its first line."""
    processes: list[Started] = []

    def begin(code: str, *arguments: str) -> Started:
        command = [sys.executable, "-c", code, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], PATIENCE)[0], "it did not start"
        process.stdout.readline()
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_second_process_is_refused_until_the_first_is_killed(start: Any, tmp_path: Path) -> None:
    holder = start(HOLD, str(tmp_path / "work"))
    refused = rf"training of a is already running \(process {holder.pid} on .*work/lock\)"
    with pytest.raises(UserError, match=refused), only_one(tmp_path / "work", "training of a"):
        pytest.fail("two at once")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with only_one(tmp_path / "work", "training of a"):
        assert (tmp_path / "work" / "lock").read_text().startswith(f"{os.getpid()} on ")


def test_the_lock_is_freed_at_the_end_and_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), only_one(tmp_path, "a"):
        raise KeyError
    for _ in range(2):
        with only_one(tmp_path, "a"):
            pass
    with only_one(tmp_path / "one", "a"), only_one(tmp_path / "two", "b"):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_job_ends_when_its_parent_is_killed(start: Any) -> None:
    parent = start(PARENT, CHILD)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    # The child holds the other end of the pipe as long as it lives.
    assert select.select([parent.stdout], [], [], PATIENCE)[0], "the child lives on"
    assert parent.stdout.read() == ""


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


def test_json_is_the_same_whatever_the_order_of_keys(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": 1, "a": ["é"]})
    write_json(tmp_path / "b.json", {"a": ["é"], "b": 1})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert read_json(tmp_path / "a.json") == {"a": ["é"], "b": 1}


def test_progress_in_a_log_is_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Started, one step within 30 s, one after (which starts anew), and a last one.
    clock = iter([0.0, 10.0, 40.0, 40.0, 50.0])
    monkeypatch.setattr("minbert.base.progress.time.monotonic", lambda: next(clock))
    progress = Progress("sst . s0")
    progress.start(8)
    progress.update(1, 0.9)
    progress.update(1, 0.5)
    progress.update(2, 0.4)
    progress.epoch(2, 4, {"sst": 0.25, "sts": 0.5}, 0.375)
    progress.close()
    out, lines = capsys.readouterr()
    assert out == ""
    assert lines.splitlines() == [
        "[sst . s0] step 2/8, epoch 1, loss 0.5000, 120 s left",
        "[sst . s0] epoch 2/4 dev: sst 0.250, sts 0.500; selection 0.3750",
    ]


def test_devices_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    for wish in ("cuda", "cuda:1", "mps"):
        with pytest.raises(UserError, match=f"device '{wish}' was asked for.*device: auto or cpu"):
            choose_device(wish)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(UserError, match="device 'cuda:2' was asked for"):
        choose_device("cuda:2")
    for wish in ("gpu", "meta", "cuda:-1", "cuda:\u0661", ""):
        with pytest.raises(UserError, match=f"device is '{wish}'; expected auto, cpu"):
            choose_device(wish)


def test_a_run_names_the_device_that_it_ran_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    found = {wish: device.device_name(torch.device(wish)) for wish in ("cpu", "mps", "cuda:1")}
    assert found == {"cpu": "cpu", "mps": "mps", "cuda:1": "GPU 1"}


@pytest.mark.parametrize("wish", ["cpu", "mps", "cuda"])
def test_each_device_gives_its_own_memory_back(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emptied = []
    for name in ("mps", "cuda"):
        monkeypatch.setattr(
            getattr(torch, name), "empty_cache", lambda name=name: emptied.append(name)
        )
    device.give_back(torch.device(wish))
    assert emptied == [name for name in ("mps", "cuda") if name == wish]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 5.2 GB, other: 1 GB)."), True),
        (RuntimeError("shapes cannot be multiplied"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_memory_that_ran_out_is_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert device.is_out_of_memory(error) == expected


def test_a_state_has_the_random_numbers_of_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout draws them there: a resumed run would draw others."""
    state, found = torch.tensor([1, 2], dtype=torch.uint8), list[torch.Tensor]()
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: state)
    monkeypatch.setattr(torch.mps, "set_rng_state", found.append)
    generators = Generators(torch.device("mps"), {})
    generators.load(generators.state())
    assert found == [state]


def test_precision() -> None:
    cpu = torch.device("cpu")
    assert choose_precision("fp32", cpu) == "fp32"
    assert choose_precision("bf16", cpu) == "bf16"
    assert peak_device_memory(cpu) is None


@pytest.mark.parametrize(
    ("able", "faster", "expected"),
    [
        ({"amx_bf16": True}, True, "bf16"),
        ({"amx_bf16": True, "avx512_bf16": True}, False, "fp32"),
        ({"amx_bf16": False, "avx512_bf16": True}, True, "bf16"),
        ({"avx512_bf16": True}, False, "fp32"),
        ({"avx512_f": True}, None, "fp32"),
        ({}, None, "fp32"),
    ],
)
def test_auto_is_bf16_where_the_cpu_is_faster_in_it(
    able: dict[str, bool], faster: bool | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe() -> bool:
        assert faster is not None, "the probe runs only where it decides"
        return faster

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    monkeypatch.setattr(device, "products_are_faster_in_bf16", probe)
    assert choose_precision("auto", torch.device("cpu")) == expected


@pytest.mark.parametrize(
    ("capability", "hip", "expected"),
    [((7, 5), None, "fp32"), ((8, 0), None, "bf16"), ((9, 0), None, "bf16"), ((7, 5), "6", "bf16")],
)
def test_auto_is_bf16_on_gpus_that_do_not_emulate_it(
    capability: tuple[int, int], hip: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = torch.device("cuda", 1)
    found = {asked: capability}
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: found[device])
    monkeypatch.setattr(torch.version, "hip", hip)
    assert choose_precision("auto", asked) == expected


@pytest.mark.parametrize("refused", [False, True])
def test_memory_is_kept_with_an_older_glibc_too(
    refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def mallopt(option: int, value: int) -> int:
        calls.append((option, value))
        return int(not (refused and option == device.MMAP_THRESHOLD and value > 2**25))

    monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace(mallopt=mallopt))
    device.set_up_memory()
    trim = (device.TRIM_THRESHOLD, 2**31 - 1)
    second = [(device.MMAP_THRESHOLD, 2**25)] * refused
    assert calls == [(device.MMAP_THRESHOLD, 2**30), *second, trim]


@pytest.mark.parametrize(("fp32", "bf16", "expected"), [(4.0, 2.0, True), (4.0, 3.5, False)])
def test_the_probe_compares_seconds(
    fp32: float, bf16: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {torch.float32: fp32, torch.bfloat16: bf16}
    monkeypatch.setattr(device, "_seconds", lambda matrix: seconds[matrix.dtype])
    assert device.products_are_faster_in_bf16(8) == expected


def test_a_clusters_job_waits_for_the_one_that_it_replaces(
    start: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = start(HOLD, str(tmp_path / "work"))
    threading.Timer(0.5, holder.kill).start()
    with only_one(tmp_path / "work", "training of a", patience=PATIENCE) as waited:
        assert waited
    assert capsys.readouterr().err == (
        f"waiting for process {holder.pid} on {os.uname().nodename}: training of a\n"
    )
    with only_one(tmp_path / "work", "training of a") as waited:
        assert not waited


def test_the_wait_has_an_end(start: Any, tmp_path: Path) -> None:
    start(HOLD, str(tmp_path / "work"))
    told = "training of a is already running"
    with pytest.raises(UserError, match=told), only_one(tmp_path / "work", "training of a", 0.3):
        pytest.fail("two at once")


def test_only_a_clusters_job_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert patience() == 0
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert patience() > 30  # Slurm's KillWait


def test_a_disk_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    told = r"work/lock cannot be locked \(No locks available\).*Lustre: `-o flock`"
    with pytest.raises(UserError, match=told), only_one(tmp_path / "work", "training of a"):
        pytest.fail("without a lock")
