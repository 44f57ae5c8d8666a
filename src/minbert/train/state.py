"""A run's resumable state on disk: whole or absent, and refused if damaged or another run's."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
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
            checksum = _checksum(temporary)
        record = {"identity": self.identity, "tensors": path.name, "crc32": checksum}
        write_json(self.folder / RECORD, record | {"facts": facts})
        for old in self.folder.glob("state-*.safetensors"):
            if old != path:
                old.unlink()

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | str:
        """Return (tensors, facts), or why there is no state to go on from; "" if none was left."""
        path = self.folder / RECORD
        if not path.exists():
            return ""
        try:
            record = read_json(path)
            if record["identity"] != self.identity:
                return f"{path} is of another run or of other code"
            tensors = self.folder / record["tensors"]
            if _checksum(tensors) != record["crc32"]:
                return f"{tensors} is damaged: its checksum is not the one in {path}"
            return load_file(tensors), record["facts"]
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            return f"{path} cannot be read ({type(error).__name__}: {error})"

    def clear(self) -> None:
        """Remove the state: the run has ended."""
        (self.folder / RECORD).unlink(missing_ok=True)
        for path in self.folder.glob("state-*.safetensors"):
            path.unlink()


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as handle:
        while block := handle.read(1 << 22):
            value = zlib.crc32(block, value)
    return value
