"""The device and the precision that a job computes with."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from minbert.base.errors import UserError
from minbert.train.device import choose_device, choose_precision, is_out_of_memory


def test_devices_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    for asked in ("cuda:97", "gpu"):
        with pytest.raises(UserError, match=f"device is '{asked}'; expected auto, cpu"):
            choose_device(asked)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("shapes cannot be multiplied"), False),
    ],
)
def test_memory_that_ran_out_is_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) == expected


@pytest.mark.parametrize(
    ("kind", "able", "seconds", "hip", "expected"),
    [
        ("cpu", {"amx_bf16": True}, 2.0, None, "bf16"),
        ("cpu", {"avx512_bf16": True}, 2.0, None, "bf16"),
        ("cpu", {"avx512_bf16": True}, 3.5, None, "fp32"),
        ("cpu", {"avx512_f": True}, 2.0, None, "fp32"),
        ("cuda", (7, 5), 2.0, None, "fp32"),
        ("cuda", (8, 0), 2.0, None, "bf16"),
        ("cuda", (7, 5), 2.0, "6", "bf16"),
    ],
)
def test_auto_is_bf16_where_the_device_is_faster_in_it(
    kind: str,
    able: Any,
    seconds: float,
    hip: str | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    took = {torch.float32: 4.0, torch.bfloat16: seconds}
    monkeypatch.setattr("timeit.repeat", lambda product, number: [9.0, took[product().dtype]])
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: able)
    monkeypatch.setattr(torch.version, "hip", hip)
    found = [choose_precision(asked, torch.device(kind)) for asked in ("auto", "fp32", "bf16")]
    assert found == [expected, "fp32", "bf16"]
