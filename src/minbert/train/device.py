"""The device and the precision that a job computes with."""

from __future__ import annotations

import torch

from minbert.common.errors import UserError


def choose_device(wish: str) -> torch.device:
    """Return the device for `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.

    `auto` is a CUDA GPU if there is one, else the CPU. Raises `UserError` if torch lacks the one
    that was asked for.
    """
    if wish == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(wish)
    lacking = {
        "cuda": not torch.cuda.is_available(),
        "mps": not torch.backends.mps.is_available(),
    }
    if lacking.get(device.type):
        raise UserError(
            f"device '{wish}' was asked for, but torch {torch.__version__} sees none. "
            "Set device: auto or cpu, or install a build of torch that has it."
        )
    return device


def choose_precision(wish: str, device: torch.device) -> str:
    """Return `fp32` or `bf16`; `auto` is bf16 autocast on a GPU that has it and fp32 on a CPU."""
    if wish != "auto":
        return wish
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"


def device_name(device: torch.device) -> str:
    """Return what the device is called, for records."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def peak_device_memory(device: torch.device) -> int | None:
    """Return the most device memory torch has held, in bytes, or None on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
