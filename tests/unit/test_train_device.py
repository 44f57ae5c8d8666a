"""The device, the precision and the memory that a job computes with."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from minbert.base.errors import UserError
from minbert.train import device
from minbert.train.device import choose_device, choose_precision, peak_device_memory

CPU = torch.device("cpu")


def test_devices_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for where, name, found in (
        *((torch.cuda, "is_available", False), (torch.cuda, "device_count", 0)),
        (torch.backends.mps, "is_available", False),
    ):
        monkeypatch.setattr(where, name, lambda found=found: found)
    assert choose_device("auto") == choose_device("cpu") == CPU
    for asked in ("cuda", "cuda:1", "mps"):
        with pytest.raises(UserError, match=f"device '{asked}' was asked for.*device: auto or cpu"):
            choose_device(asked)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(UserError, match="device 'cuda:2' was asked for"):
        choose_device("cuda:2")
    for asked in ("gpu", "meta", "cuda:-1", "cuda:\u0661", ""):
        with pytest.raises(UserError, match=f"device is '{asked}'; expected auto, cpu"):
            choose_device(asked)


def test_a_run_names_its_device_and_each_releases_its_own_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    found = {name: device.device_name(torch.device(name)) for name in ("cpu", "mps", "cuda:1")}
    assert found == {"cpu": "cpu", "mps": "mps", "cuda:1": "GPU 1"}
    assert peak_device_memory(CPU) is None
    emptied: list[str] = []
    for each in ("mps", "cuda"):
        monkeypatch.setattr(getattr(torch, each), "empty_cache", lambda e=each: emptied.append(e))
    for name in ("cpu", "mps", "cuda"):
        device.release_memory(torch.device(name))
    assert emptied == ["mps", "cuda"]


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


@pytest.mark.parametrize(
    ("able", "faster", "expected"),
    [
        ({"amx_bf16": True}, True, "bf16"),
        ({"amx_bf16": True, "avx512_bf16": True}, False, "fp32"),
        ({"amx_bf16": False, "avx512_bf16": True}, True, "bf16"),
        ({"avx512_f": True}, None, "fp32"),
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
    assert choose_precision("auto", CPU) == expected
    assert [choose_precision(named, CPU) for named in ("fp32", "bf16")] == ["fp32", "bf16"]


@pytest.mark.parametrize(
    ("capability", "hip", "expected"),
    [((7, 5), None, "fp32"), ((8, 0), None, "bf16"), ((7, 5), "6", "bf16")],
)
def test_auto_is_bf16_on_gpus_that_do_not_emulate_it(
    capability: tuple[int, int], hip: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = torch.device("cuda", 1)
    found = {asked: capability}
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: found[device])
    monkeypatch.setattr(torch.version, "hip", hip)
    assert choose_precision("auto", asked) == expected


@pytest.mark.parametrize(("bf16", "expected"), [(2.0, True), (3.5, False)])
def test_the_probe_compares_seconds(
    bf16: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def repeat(product: Any, number: int) -> list[float]:
        return [9.0, 4.0 if product().dtype == torch.float32 else bf16]

    monkeypatch.setattr("timeit.repeat", repeat)
    assert device.products_are_faster_in_bf16(8) == expected


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


STATUS = Path("/proc/self/status")


def resident() -> int:
    """Return this process's own memory, bytes."""
    (line,) = (t for t in STATUS.read_text().splitlines() if t.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(not STATUS.exists(), reason="the kernel does not tell")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="no glibc")
def test_freed_memory_is_released() -> None:
    """Small blocks below one that is held stay with the process until it is asked."""
    raised = np.ones(31 * 2**17)  # From now on, blocks of up to 31 MiB are from the heap.
    del raised
    blocks = [np.ones(2**17) for _ in range(100)]
    last = blocks.pop()
    blocks.clear()
    before = resident()
    device.release_memory()
    assert before - resident() > 50 * 2**20
    assert last.all()


PRODUCTS = """
import sys
from pathlib import Path
import torch
from minbert.train.device import set_up_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

torch.set_num_threads(1)
if sys.argv[1] == "set up":
    set_up_memory()
weights = [torch.ones(out, 128, dtype=torch.bfloat16) for out in (128, 384, 512)]
before = resident()
for tokens in range(100, 150):
    x = torch.ones(tokens, 128, dtype=torch.bfloat16)
    for weight in weights:
        upper = torch.nn.functional.linear(x, weight)
        upper @ weight, upper.T @ x
print(resident() - before)
"""


@pytest.mark.skipif(
    not torch.cpu.get_capabilities().get("avx512_bf16"), reason="oneDNN compiles no bf16 here"
)
def test_code_for_batches_of_each_length_is_not_kept() -> None:
    plain = {name: value for name, value in os.environ.items() if name not in device.KERNELS}
    grown = []
    for how in ("set up", "as it is"):
        command = [sys.executable, "-c", PRODUCTS, how]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=plain)
        grown.append(int(done.stdout))
    assert grown[0] < grown[1] / 3
