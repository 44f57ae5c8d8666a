"""Weights in safetensors files, with a separate checksum."""

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


def save_weights(path: Path, state: Mapping[str, Tensor], **metadata: str) -> None:
    """Write `state` as safetensors, whole or not at all, with `metadata`, or else its checksum."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    with whole(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode
        save_file(tensors, temporary, metadata=metadata or {CHECKSUM: checksum(tensors)})
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
        with safe_open(path, "pt") as file:
            written = (file.metadata() or {}).get(CHECKSUM)
        tensors = load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such weights file, or it may not be read") from None
    except SafetensorError as error:
        raise UserError(
            f"{path}: not a whole safetensors file ({error}); make it again, or `git lfs pull` it"
        ) from error
    # A file from elsewhere need not hold a checksum.
    if written not in (None, checksum(tensors)):
        raise UserError(
            f"{path}: is damaged: its tensors have not the {CHECKSUM} in its header; delete it"
        )
    return tensors
