"""A run's resumable state on disk: whole or absent, and refused if damaged or another run's."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from minbert.common.files import read_json, whole, write_json

RECORD = "state.json"


class StateFile:
    """The state of one run, in `folder`: tensors (safetensors) and a JSON record beside them.

    The record names the tensors' file and its checksum and is written last, so that the two are
    of one moment. `identity` says whose state it is.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        self.identity = identity

    def save(self, number: int, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Write the state after step `number`; the one before goes when this one is whole."""
        path = self.folder / f"state-{number}.safetensors"
        with whole(path) as temporary:
            held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
            save_file(held, temporary)
            checksum = file_checksum(temporary)
        record = {"identity": self.identity, "tensors": path.name, "crc32": checksum}
        write_json(self.folder / RECORD, record | {"facts": facts})
        for old in self.folder.glob("state-*.safetensors"):
            if old != path:
                old.unlink()

    def load(self) -> tuple[Path, dict[str, Any]] | str:
        """Return (tensors' file, facts), or why there is no state to go on from; "" for none.

        The file is as it was written; `read_tensors` reads it.
        """
        path = self.folder / RECORD
        if not path.exists():
            return ""
        try:
            record = read_json(path)
            if record["identity"] != self.identity:
                return f"{path} is of another run or of other code"
            tensors = self.folder / record["tensors"]
            if file_checksum(tensors) != record["crc32"]:
                return f"{tensors} is damaged: its checksum is not the one in {path}"
            return tensors, record["facts"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            return f"{path} cannot be read ({type(error).__name__}: {error})"

    def clear(self) -> None:
        """Remove the state: the run has ended."""
        (self.folder / RECORD).unlink(missing_ok=True)
        for path in self.folder.glob("state-*.safetensors"):
            path.unlink()


def read_tensors(path: Path, prefix: str) -> dict[str, Tensor]:
    """Read the tensors of a state that are named `prefix.NAME`, by NAME, on the CPU.

    A call's tensors share a mapping of the file, whose memory goes when they do.
    """
    start = f"{prefix}."
    with safe_open(path, "pt") as file:
        names = file.keys()
        found = [name for name in names if name.startswith(start)]
        return {name.removeprefix(start): file.get_tensor(name) for name in found}


def file_checksum(path: Path) -> int:
    """Return the CRC-32 of a file's bytes."""
    value = 0
    with path.open("rb") as handle:
        while block := handle.read(1 << 22):
            value = zlib.crc32(block, value)
    return value
