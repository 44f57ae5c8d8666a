"""Checkpoints: a run's best weights and its state on disk, whole or refused, so it can resume."""

import shutil
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.model.weights import load_weights, save_weights


class Part(Protocol):
    """A part of a run that must survive an interruption."""

    def state_dict(self) -> dict[str, Any]:
        """Return what the part needs to go on: tensors and plain values, in nested dicts."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned, with all tensors on the CPU."""


class Checkpoints:
    """Keeps a run's best weights in `folder`, and its state if it is to survive an interruption.

    `best-EPOCH.safetensors` are the weights of the best epoch so far. `state-STEP.pt` is written
    every `every` seconds (None: never), after each epoch, and when the run is asked to stop; it
    appears when it is whole, and the one before stays until then, with the weights that it names.
    `identity` says whose state it is: that of a different run is refused.
    """

    def __init__(self, folder: Path, identity: str = "", every: float | None = None) -> None:
        self.folder = folder
        self.identity = identity
        self.every = every
        self.stop: int | None = None  # the signal that asked the run to stop
        self.best_epoch = 0  # 0 before there is one
        self._saved_best = 0  # the one that the newest state names
        self._parts: Mapping[str, Part] = {}
        self._computed_on = ""
        self._last = time.monotonic()

    @property
    def best(self) -> Path:
        return self._best(self.best_epoch)

    def keep_best(self, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Write the weights of `epoch`, the best one so far."""
        save_weights(self._best(epoch), weights)
        self.best_epoch = epoch
        self._remove("best-*.safetensors", self.best, self._best(self._saved_best))

    def copy_best(self, to: Path) -> None:
        with whole(to) as temporary:
            shutil.copyfile(self.best, temporary)

    def resume(self, parts: Mapping[str, Part], computed_on: str) -> str:
        """Load the newest state, if any, into `parts`, to be saved later; return why not, or "".

        A state that was not `computed_on` the same kind of device and in the same precision is
        refused: on a CPU, the state of embeddings is of a different kind.
        """
        self._parts, self._computed_on = parts, computed_on
        path = max(self._states(), key=saved_step, default=None)
        if path is None:
            return ""
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            if crc32(state["run"]) != state["crc32"]:
                return f"{path} is damaged: its checksum is not the one that it holds"
            run = state["run"]
            if run["identity"] != self.identity:
                return f"{path} is from another run or from other code"
            if run["computed_on"] != computed_on:
                return f"{path} was computed on {run['computed_on']}, not {computed_on}"
            if run["parts"].keys() != parts.keys():
                return f"{path} holds other parts than this run has"
            if run["best_epoch"]:
                load_weights(self._best(run["best_epoch"]))  # which are whole if they can be read
        except UserError as error:
            return str(error)
        except Exception as error:  # Damaged bytes raise errors of all kinds.
            return f"{path} cannot be read ({type(error).__name__}: {error})"
        self.best_epoch = self._saved_best = run["best_epoch"]
        for name, part in parts.items():
            part.load_state_dict(run["parts"].pop(name))
        return ""

    def after_step(self, step: int, *, save: bool = False) -> None:
        """Save if told, or if it is time; raise `SystemExit` then if the run was asked to stop."""
        if self.stop:
            self.save(step)
            raise SystemExit(f"stopped by signal {self.stop}; the next run resumes from here")
        if save or (self.every is not None and time.monotonic() - self._last > self.every):
            self.save(step)

    def save(self, step: int) -> None:
        """Write the state after `step`, and remove what it replaces."""
        if self.every is None:
            return
        run = {
            "identity": self.identity,
            "computed_on": self._computed_on,
            "best_epoch": self.best_epoch,
            "parts": {name: _on_cpu(part.state_dict()) for name, part in self._parts.items()},
        }
        path = self.folder / f"state-{step}.pt"
        with whole(path) as temporary, temporary.open("wb") as file:
            torch.save({"run": run, "crc32": crc32(run)}, file)
        self._saved_best = self.best_epoch
        self._remove("state-*.pt", path)
        self._remove("best-*.safetensors", self.best)
        self._last = time.monotonic()

    def clear(self) -> None:
        self._remove("state-*.pt")
        self._remove("best-*.safetensors")

    def _states(self) -> list[Path]:
        return list(self.folder.glob("state-*.pt")) if self.every is not None else []

    def _best(self, epoch: int) -> Path:
        return self.folder / f"best-{epoch}.safetensors"

    def _remove(self, pattern: str, *but: Path) -> None:
        for path in set(self.folder.glob(pattern)).difference(but):
            path.unlink()


def saved_step(path: Path) -> int:
    """Return the step that a state of this name was saved after."""
    return int(path.stem.partition("-")[2])


def _on_cpu(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _on_cpu(each) for name, each in value.items()}
    return value.detach().cpu().contiguous() if isinstance(value, Tensor) else value


def crc32(value: Any, so_far: int = 0) -> int:
    """Return the CRC-32 of nested dicts of CPU tensors and plain values."""
    if isinstance(value, dict):
        for name, each in value.items():
            so_far = crc32(each, zlib.crc32(name.encode(), so_far))
        return so_far
    if isinstance(value, Tensor):
        return zlib.crc32(value.reshape(-1).view(torch.uint8).numpy().data, so_far)
    return zlib.crc32(repr(value).encode(), so_far)


class Generators:
    """Random generators as a part of a run: torch's default ones, and those in `own` by name."""

    def __init__(self, device: torch.device, own: Mapping[str, torch.Generator]) -> None:
        self.device = device
        self.own = own

    def state_dict(self) -> dict[str, Any]:
        states = {f"own.{name}": own.get_state() for name, own in self.own.items()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        if self.device.type == "mps":
            states["mps"] = torch.mps.get_rng_state()
        return states | {"torch": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["torch"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"], self.device)
        if self.device.type == "mps":
            torch.mps.set_rng_state(state["mps"])
        for name, own in self.own.items():
            own.set_state(state[f"own.{name}"])
