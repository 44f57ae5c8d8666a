"""The device and the precision that a job computes with, and how much memory there is."""

import ctypes
import os
import timeit
from functools import partial
from pathlib import Path

import torch

from minbert.base.errors import UserError


def set_up(device: str, precision: str, threads: int) -> tuple[torch.device, str]:
    """Prepare this process to compute on so many threads; return its device and its precision."""
    torch.set_num_threads(threads)
    set_up_memory()
    chosen = choose_device(device)
    return chosen, choose_precision(precision, chosen)


def choose_device(requested: str) -> torch.device:
    """Return the device for `auto` (a CUDA GPU if there is one), `cpu`, `mps`, `cuda` or `cuda:N`.

    Raises `UserError` for any other word, and if torch does not see the device.
    """
    if requested == "auto":
        requested = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=requested).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"device is '{requested}'; expected auto, cpu, mps, cuda or cuda:N, and torch "
            f"{torch.__version__} that supports it and sees one: {reason}"
        ) from None


FASTER = 1.3
"""How many times as fast a CPU's products in bf16 must be; where they are, it is some 2 times."""


def choose_precision(requested: str, device: torch.device) -> str:
    """Return `fp32` or `bf16`; `auto` is bf16 where the device computes faster in it.

    A CPU that can multiply matrices in bf16 is timed, which takes some 20 ms.
    """
    if requested != "auto":
        return requested
    faster: object = False
    if device.type == "cuda":
        # AMD's, and NVIDIA's since Ampere: older ones emulate bf16.
        faster = torch.version.hip or torch.cuda.get_device_capability(device) >= (8, 0)
    elif device.type == "cpu":
        able = torch.cpu.get_capabilities()
        if able.get("amx_bf16") or able.get("avx512_bf16"):
            seconds = []
            for dtype in (torch.float32, torch.bfloat16):
                matrix = torch.ones(512, 512, dtype=dtype)
                matrix @ matrix  # The first product of a kind also chooses its kernel.
                product = partial(torch.mm, matrix, matrix)
                seconds.append(min(timeit.repeat(product, number=1)))
            faster = seconds[0] > FASTER * seconds[1]
    return "bf16" if faster else "fp32"


def device_name(device: torch.device) -> str:
    """Return the model of a CUDA GPU, or else the device's type: `cpu` or `mps`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


CGROUP = Path("/sys/fs/cgroup/memory.max")


def machine_memory() -> int:
    """Return the bytes of memory that this process may use: the machine's, or its cgroup's."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = CGROUP.read_text().strip() if CGROUP.exists() else "max"
    return min(whole, int(limit)) if limit != "max" else whole


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # glibc's numbers for `mallopt`

KERNELS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}
"""For how many shapes of products oneDNN, and torch's part of it, keep compiled code."""


def set_up_memory() -> None:
    """Let this process keep what it needs again, and no more; call it before the first product.

    glibc would return gradients and activations to the system at the end of each step, which then
    clears every page of them for the next: a tenth of a step in bf16. It is kept until
    `release_memory`.

    oneDNN, which computes bf16 products, compiles code for each shape. Batches differ in their
    number of tokens, so the 1,000 that it would keep take half a gigabyte; the layers of a step
    need 50.
    """
    for name, count in KERNELS.items():
        os.environ.setdefault(name, count)
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        # Older versions of glibc take 32 MiB at most, and after the second call it stays as it is.
        set_option(MMAP_THRESHOLD, 2**30) or set_option(MMAP_THRESHOLD, 2**25)
        set_option(TRIM_THRESHOLD, 2**31 - 1)


def release_memory(device: torch.device | None = None) -> None:
    """Return freed memory to the system, and that which torch caches on `device`."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it.
    if trim is not None:
        trim(0)
    if device is not None and device.type != "cpu":
        torch.get_device_module(device).empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` says that memory ran out, on whichever device."""
    told = ("out of memory", "can't allocate memory")
    return isinstance(error, MemoryError) or any(words in str(error) for words in told)
