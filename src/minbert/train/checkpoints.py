"""Checkpoints: a run's best weights and its state on disk, whole or refused, so it can resume."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from zipfile import ZipFile

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.model.weights import load_weights, save_weights


class Part:
    """A part of a run that must survive an interruption: by default, attributes of these names."""

    kept: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> dict[str, Any]:
        """Return what the part needs to go on: tensors and plain values, in dicts and lists."""
        return {name: getattr(self, name) for name in self.kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned, with all tensors on the CPU."""
        for name, value in state.items():
            device = getattr(getattr(self, name), "device", None)
            setattr(self, name, value if device is None else value.to(device))


class Checkpoints:
    """Keeps a run's best weights in `folder`, and its state if it is to survive an interruption.

    `best-EPOCH.safetensors` are the weights of the best epoch so far. `state-STEP.pt` is written
    every `every` seconds (None: never), after each epoch, and when the run is asked to stop. It
    appears when it is whole; what it replaces is removed then, older best weights among it.
    `identity` says whose state it is: that of a different run is refused.
    """

    def __init__(self, folder: Path, identity: str = "", every: float | None = None) -> None:
        self.folder = folder
        self.identity = identity
        self.every = every
        self.stop: int | None = None  # the signal that asked the run to stop
        self.best_epoch = 0  # 0 before there is one
        self._parts: Mapping[str, Part] = {}
        self._computed_on = ""
        self._last = time.monotonic()

    @property
    def best(self) -> Path:
        """The file of the best epoch's weights."""
        return self._best(self.best_epoch)

    def keep_best(self, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Write the weights of `epoch` (from 1), the best one so far."""
        save_weights(self._best(epoch), weights)
        self.best_epoch = epoch

    def copy_best(self, to: Path) -> None:
        """Copy the best epoch's weights to the file `to`, whole or not at all."""
        with whole(to) as temporary:
            shutil.copyfile(self.best, temporary)

    def resume(self, parts: Mapping[str, Part], computed_on: str) -> str:
        """Load the newest state, if any, into `parts`, to be saved later; return why not, or "".

        A state is refused, and nothing loaded, if it is damaged or a different run's, or if it was
        not `computed_on` the same kind of device in the same precision: on a CPU, the state of
        embeddings is of a different kind.
        """
        self._parts, self._computed_on = parts, computed_on
        states = list(self.folder.glob("state-*.pt"))
        if self.every is None or not states:
            return ""
        path = max(states, key=lambda state: int(state.stem.partition("-")[2]))
        try:
            with ZipFile(path) as file:
                if damaged := file.testzip():  # torch writes checksums, but reads none
                    return f"{path} is damaged: the checksum of its {damaged} is wrong"
            state = torch.load(path, map_location="cpu", weights_only=True)
            if state["identity"] != self.identity:
                return f"{path} is from another run or from other code"
            if state["computed_on"] != computed_on:
                return f"{path} was computed on {state['computed_on']}, not {computed_on}"
            if state["parts"].keys() != parts.keys():
                return f"{path} holds other parts than this run has"
            if state["best_epoch"]:
                load_weights(self._best(state["best_epoch"]))  # whole if they can be read
        except UserError as error:
            return str(error)
        except Exception as error:  # Damaged bytes raise errors of all kinds.
            return f"{path} cannot be read ({type(error).__name__}: {error})"
        self.best_epoch = state["best_epoch"]
        for name, part in parts.items():
            part.load_state_dict(state["parts"].pop(name))
        return ""

    def after_step(self, step: int, *, save: bool = False) -> None:
        """Save if told, or if it is time; raise `SystemExit` then if the run was asked to stop."""
        due = self.every is not None and time.monotonic() - self._last > self.every
        if save or due or self.stop:
            self.save(step)
        if self.stop:
            raise SystemExit(f"stopped by signal {self.stop}; the next run resumes from here")

    def save(self, step: int) -> None:
        """Write the state after `step` (from 1), and remove what it replaces."""
        path = self.folder / f"state-{step}.pt"
        if self.every is not None:
            parts = {name: part.state_dict() for name, part in self._parts.items()}
            on_cpu = tree_map(lambda x: x.detach().cpu() if isinstance(x, Tensor) else x, parts)
            state = {
                "identity": self.identity,
                "computed_on": self._computed_on,
                "best_epoch": self.best_epoch,
                "parts": on_cpu,
            }
            with whole(path) as temporary, temporary.open("wb") as file:
                torch.save(state, file)
            self._last = time.monotonic()
        self.clear(path, self.best)

    def clear(self, *but: Path) -> None:
        """Remove all states and weights but these."""
        for pattern in ("state-*.pt", "best-*.safetensors"):
            for path in set(self.folder.glob(pattern)).difference(but):
                path.unlink()

    def _best(self, epoch: int) -> Path:
        return self.folder / f"best-{epoch}.safetensors"


class Generators(Part):
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
