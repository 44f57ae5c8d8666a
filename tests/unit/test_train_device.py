"""The device, the precision and the memory that a job computes with."""

from __future__ import annotations

import pytest
import torch

from minbert.base.errors import UserError
from minbert.train import device
from minbert.train.device import choose_device, choose_precision

CPU = torch.device("cpu")


def test_devices_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == CPU
    for asked in ("cuda:97", "gpu"):
        with pytest.raises(UserError, match=f"device is '{asked}'; expected auto, cpu"):
            choose_device(asked)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 5.2 GB, other: 1 GB)."), True),
        (RuntimeError("shapes cannot be multiplied"), False),
    ],
)
def test_memory_that_ran_out_is_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert device.is_out_of_memory(error) == expected


@pytest.mark.parametrize(
    ("able", "bf16", "expected"),
    [
        ({"amx_bf16": True}, 2.0, "bf16"),
        ({"avx512_bf16": True}, 2.0, "bf16"),
        ({"avx512_bf16": True}, 3.5, "fp32"),
        ({"avx512_f": True}, 2.0, "fp32"),
    ],
)
def test_auto_is_bf16_where_the_cpu_is_faster_in_it(
    able: dict[str, bool], bf16: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    seconds = {torch.float32: 4.0, torch.bfloat16: bf16}
    monkeypatch.setattr("timeit.repeat", lambda product, number: [9.0, seconds[product().dtype]])
    assert choose_precision("auto", CPU) == expected
    assert [choose_precision(named, CPU) for named in ("fp32", "bf16")] == ["fp32", "bf16"]


@pytest.mark.parametrize(
    ("capability", "hip", "expected"),
    [((7, 5), None, "fp32"), ((8, 0), None, "bf16"), ((7, 5), "6", "bf16")],
)
def test_auto_is_bf16_on_gpus_that_do_not_emulate_it(
    capability: tuple[int, int], hip: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert choose_precision("auto", torch.device("cuda", 1)) == expected
