"""The device and the precision that a job computes with, and how much memory there is."""

import ctypes
import os
import re
from pathlib import Path

import torch

from minbert.base.errors import UserError


def choose_device(wish: str) -> torch.device:
    """Return the device for `auto` (a CUDA GPU if there is one), `cpu`, `mps`, `cuda` or `cuda:N`.

    Raises `UserError` for another word, and if torch does not see it.
    """
    if not re.fullmatch("auto|cpu|mps|cuda(:[0-9]{1,2})?", wish):
        raise UserError(f"device is '{wish}'; expected auto, cpu, mps, cuda or cuda:N")
    if wish == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(wish)
    there = {
        "cuda": torch.cuda.device_count() > (device.index or 0),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(device.type, True):
        raise UserError(
            f"device '{wish}' was asked for, but torch {torch.__version__} sees none. "
            "Set device: auto or cpu, or install a build of torch that supports it."
        )
    return device


def choose_precision(wish: str, device: torch.device) -> str:
    """Return `fp32` or `bf16`; `auto` is bf16 on a GPU that supports it, else fp32."""
    if wish != "auto":
        return wish
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def peak_device_memory(device: torch.device) -> int | None:
    """Return the peak of the device memory that torch held, in bytes; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


CGROUP = Path("/sys/fs/cgroup/memory.max")


def machine_memory() -> int:
    """Return the bytes of memory that this process may use: the machine's, or its cgroup's."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = CGROUP.read_text().strip() if CGROUP.exists() else "max"
    return min(whole, int(limit)) if limit != "max" else whole


def give_back(device: torch.device | None = None) -> None:
    """Return freed memory to the system, and that which torch caches on a CUDA `device`."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it.
    if trim is not None:
        trim(0)
    if device is not None and device.type == "cuda":
        torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` says that memory ran out, on whichever device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
