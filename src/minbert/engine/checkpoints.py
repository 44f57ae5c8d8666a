"""Checkpoints: a run's state and its best weights on disk, whole or refused, so it can resume."""

import shutil
import time
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.files import read_json, whole, write_json

CPU = torch.device("cpu")
RECORD = "state.json"


class Part(Protocol):
    """A part of a run that must survive an interruption."""

    def state(self) -> dict[str, Any]:
        """Return what the part needs to go on, by name: tensors, and values that JSON can hold."""

    def load(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned: tensors on the same device, tuples as lists."""


class Best:
    """Keeps the weights of a run's best epoch in a file of `folder`, named after the epoch.

    The file that a saved state names stays until a state that names another one is complete.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.epoch = 0  # the best so far; 0 before there is one
        self._crc32 = 0
        self._saved = 0

    @property
    def path(self) -> Path:
        return self._path(self.epoch)

    def keep(self, epoch: int, write: Callable[[Path], object]) -> None:
        """Let `write` make the file for `epoch`, the best one so far."""
        write(self._path(epoch))
        self.epoch, self._crc32 = epoch, file_checksum(self._path(epoch))
        self._remove(but=(epoch, self._saved))

    def state(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "crc32": self._crc32}

    def saved(self) -> None:
        """Note that a complete state names the file; remove all others."""
        self._saved = self.epoch
        self._remove(but=(self.epoch,))

    def resume(self, epoch: int, crc32: int) -> str:
        """Take over the file that a saved state names; return what is wrong with it, or ""."""
        path = self._path(epoch)
        if epoch and not path.exists():
            return f"{path} is missing"
        if epoch and file_checksum(path) != crc32:
            return f"{path} is damaged: its checksum is not the one in the state"
        self.epoch, self._crc32, self._saved = epoch, crc32, epoch
        return ""

    def copy(self, to: Path) -> None:
        with whole(to) as temporary:
            shutil.copyfile(self.path, temporary)

    def clear(self) -> None:
        self._remove()

    def _path(self, epoch: int) -> Path:
        return self.folder / f"best-{epoch}.safetensors"

    def _remove(self, but: tuple[int, ...] = ()) -> None:
        remove(self.folder, "best-*.safetensors", *map(self._path, but))


class Checkpoints:
    """Saves the parts of a run in `folder` every `every` seconds and when it is asked to stop.

    A state is a safetensors file and a JSON record beside it, which holds the file's checksum and
    is written last. `identity` says whose state it is: another run's state is refused.
    """

    def __init__(self, folder: Path, identity: str, every: float) -> None:
        self.folder = folder
        self.identity = identity
        self.every = every
        self.best = Best(folder)
        self.stop: int | None = None  # the signal that asked the run to stop
        self._parts: Mapping[str, Part] = {}
        self._computed_on = ""
        self._last = time.monotonic()

    def resume(self, parts: Mapping[str, Part], computed_on: str) -> str:
        """Restore a state, if saved, into `parts`, to be saved later; return why not, or "".

        A state that was not `computed_on` the same device and in the same precision is refused.
        """
        self._parts, self._computed_on = parts, computed_on
        found = self._read()
        if isinstance(found, str):
            return found
        path, record = found
        if record["computed_on"] != computed_on:
            # On a CPU the state of embeddings is of another kind than elsewhere.
            return f"{path} was computed on {record['computed_on']}, not {computed_on}"
        device = next((p.device for p in parts.values() if isinstance(p, Generators)), CPU)
        there = record.get("on_device", () if device == CPU else None)
        if there is None:
            return f"{path} is of an older version, which does not say what was on the device"
        if wrong := self.best.resume(**record["best"]):
            return wrong
        # One after the other: together they would be almost a second state in memory.
        for name, part in parts.items():
            part.load(read_tensors(path, name, there, device) | record["facts"][name])
        return ""

    def after_step(self, step: int) -> None:
        """Save if it is time; save and raise `SystemExit` if the run was asked to stop."""
        if self.stop:
            self.save(step)
            raise SystemExit(f"stopped by signal {self.stop}; the next run resumes from here")
        if time.monotonic() - self._last > self.every:
            self.save(step)

    def save(self, step: int) -> None:
        """Write the state after `step`; the one before is removed when this one is complete."""
        tensors: dict[str, Tensor] = {}
        facts: dict[str, dict[str, Any]] = {}
        there: list[str] = []
        for name, part in self._parts.items():
            state = part.state()
            facts[name] = {key: v for key, v in state.items() if not isinstance(v, Tensor)}
            for key in state.keys() - facts[name].keys():
                tensors[f"{name}.{key}"] = state[key].detach().cpu().contiguous()
                if state[key].device != CPU:
                    there.append(f"{name}.{key}")
        path = self.folder / f"state-{step}.safetensors"
        with whole(path) as temporary:
            save_file(tensors, temporary)
            checksum = file_checksum(temporary)
        record = {"identity": self.identity, "tensors": path.name, "crc32": checksum}
        record |= {"computed_on": self._computed_on, "best": self.best.state(), "facts": facts}
        record["on_device"] = sorted(there)
        write_json(self.folder / RECORD, record)
        remove(self.folder, "state-*.safetensors", path)
        self.best.saved()
        self._last = time.monotonic()

    def clear(self) -> None:
        (self.folder / RECORD).unlink(missing_ok=True)
        remove(self.folder, "state-*.safetensors")
        self.best.clear()

    def _read(self) -> tuple[Path, dict[str, Any]] | str:
        """Return (tensors' file, record), or why there is nothing to resume; "" if no state."""
        path = self.folder / RECORD
        if not path.exists():
            return ""
        if path.is_dir():  # where the state is to be saved
            raise UserError(f"{path} is a folder, expected a file there; move it away")
        try:
            record = read_json(path)
            if record["identity"] != self.identity:
                return f"{path} is from another run or from other code"
            if record["facts"].keys() != self._parts.keys():
                return f"{path} holds other parts than this run has"
            tensors = self.folder / record["tensors"]
            if file_checksum(tensors) != record["crc32"]:
                return f"{tensors} is damaged: its checksum is not the one in {path}"
            return tensors, record
        except (OSError, UserError, KeyError, TypeError, AttributeError) as error:
            return f"{path} cannot be read ({type(error).__name__}: {error})"


class Generators:
    """Random generators as a part of a run: torch's default ones, and those in `own` by name."""

    def __init__(self, device: torch.device, own: Mapping[str, torch.Generator]) -> None:
        self.device = device
        self.own = own

    def state(self) -> dict[str, Any]:
        states = {f"own.{name}": own.get_state() for name, own in self.own.items()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        if self.device.type == "mps":
            states["mps"] = torch.mps.get_rng_state()
        return states | {"torch": torch.get_rng_state()}

    def load(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["torch"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"], self.device)
        if self.device.type == "mps":
            torch.mps.set_rng_state(state["mps"])
        for name, own in self.own.items():
            own.set_state(state[f"own.{name}"])


def read_tensors(
    path: Path, part: str, there: Collection[str] = (), device: torch.device = CPU
) -> dict[str, Any]:
    """Read a state's tensors `part.NAME` by NAME, those that are `there` to `device`.

    The others are on the CPU, and share a mapping of the file.
    """
    start = f"{part}."
    with safe_open(path, "pt") as file:
        names = file.keys()
        return {
            name.removeprefix(start): file.get_tensor(name).to(device if name in there else CPU)
            for name in names
            if name.startswith(start)
        }


def remove(folder: Path, pattern: str, *but: Path) -> None:
    """Delete the files of `folder` that match `pattern`, except those in `but`."""
    for path in set(filter(Path.is_file, folder.glob(pattern))).difference(but):
        path.unlink()


def file_checksum(path: Path) -> int:
    """Return the CRC-32 of a file's bytes."""
    value = 0
    with path.open("rb") as handle:
        while block := handle.read(1 << 22):
            value = zlib.crc32(block, value)
    return value
