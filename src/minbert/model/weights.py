"""Weights in safetensors files, with a checksum of their own."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.files import whole

CHECKSUM = "sha256"
"""The header's only entry: safetensors writes several in an order that changes by the process."""


def save_weights(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write `state` with its checksum to the safetensors file `path`, whole or not at all."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    save_tensors(path, tensors, **{CHECKSUM: checksum(tensors)})


def save_tensors(path: Path, tensors: Mapping[str, Tensor], **metadata: str) -> None:
    """Write `tensors` to the safetensors file `path`, with `metadata` in its header."""
    with whole(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode
        plain = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
        save_file(plain, temporary, metadata=metadata)
        temporary.chmod(mode)  # safetensors lets nobody else read it


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of contiguous CPU tensors: names, types, shapes and bytes."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file on the CPU; `UserError` if it is missing or damaged."""
    try:
        with path.open("rb") as handle:  # safetensors takes what may not be read for missing
            start = handle.read(30)
        with safe_open(path, "pt") as file:
            written = (file.metadata() or {}).get(CHECKSUM)
        tensors = load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such weights file") from None
    except SafetensorError as error:
        raise UserError(
            f"{path}: not a whole safetensors file ({error}; it begins with {start!r}); make or "
            "download the file itself again (`git lfs pull` in place of Git LFS's pointers)"
        ) from error
    # A file from elsewhere need not hold a checksum.
    if written not in (None, checksum(tensors)):
        raise UserError(
            f"{path}: is damaged: its tensors have not the {CHECKSUM} in its header; delete it, "
            "and make or download it again"
        )
    return tensors
