"""Checkpoints: a run's best weights and its state on disk, whole or refused, so it can resume."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from zipfile import ZipFile

import torch
from torch import Generator, Tensor
from torch.utils._pytree import tree_map

from minbert.base.files import whole
from minbert.model.weights import load_weights, save_weights


class Part:
    """A part of a run that must survive an interruption: by default, attributes of these names.

    They are tensors and plain values, in dicts and lists, or generators. Those in dicts and lists
    are on `device`.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    device = torch.device("cpu")

    def state_dict(self) -> dict[str, Any]:
        """Return what the part needs to go on: tensors and plain values, in dicts and lists."""
        found = {name: getattr(self, name) for name in self.kept}
        return {n: x.get_state() if isinstance(x, Generator) else x for n, x in found.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned, with all tensors on the CPU."""
        for name, value in state.items():
            now = getattr(self, name)
            if isinstance(now, Generator):
                now.set_state(value)
            elif isinstance(now, Tensor):  # A parameter stays the one that is trained.
                now.data = value.to(now.device)
            else:
                setattr(self, name, moved(value, self.device))


def moved(values: Any, device: torch.device) -> Any:
    """Return plain values with all tensors among them on `device`."""
    return tree_map(lambda x: x.detach().to(device) if isinstance(x, Tensor) else x, values)


class Generators(Part):
    """torch's default random generators, of the CPU and of the device, as a part of a run."""

    kept = ("of_cpu", "of_device")

    def __init__(self, device: torch.device) -> None:
        self.of_cpu = self.of_device = torch.default_generator
        if device.type == "cuda":
            self.of_device = torch.cuda.default_generators[device.index]
        if device.type == "mps":
            self.of_device = torch.mps._get_default_mps_generator()


class Checkpoints:
    """Keeps a run's best weights and its state in `folder`, so that it survives an interruption.

    `best-EPOCH.safetensors` are the weights of the best epoch so far. `state-STEP.pt` is written
    every `every` seconds, after each epoch, and when the run is asked to stop. It appears when it
    is whole; what it replaces is removed then.
    """

    def __init__(self, folder: Path, every: float = math.inf) -> None:
        self.folder, self.every = folder, every
        self.stop: int | None = None  # the signal that asked the run to stop
        self.best = ""  # the file in `folder` with the best epoch's weights, if there is one
        self.parts: Mapping[str, Part] = {}
        self._computed_on = ""
        self._last = time.monotonic()

    def keep_best(self, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Write the weights of `epoch` (from 1), the best one so far."""
        self.best = f"best-{epoch}.safetensors"
        save_weights(self.folder / self.best, weights)

    def resume(self, parts: Mapping[str, Part], computed_on: str) -> str:
        """Load the newest state, if any, into `parts`, to be saved later; return why not, or "".

        A state is refused, and nothing loaded, if it is damaged, or if it was not `computed_on` the
        same kind of device in the same precision: on a CPU, embeddings have a different state.
        """
        self.parts, self._computed_on = parts, computed_on
        states = list(self.folder.glob("state-*.pt"))
        if not states:
            return ""
        path = max(states, key=lambda state: state.stat().st_mtime_ns)
        try:
            with ZipFile(path) as file:  # torch writes checksums, but reads none.
                damaged = file.testzip()
            state = torch.load(path, map_location="cpu", weights_only=True)
            if damaged or state["computed_on"] != computed_on:
                raise ValueError("damaged, or from another device or precision")
            if state["best"]:
                load_weights(self.folder / state["best"])  # whole if they can be read
        except Exception as error:  # Damaged bytes raise errors of all kinds.
            return f"{path} cannot be used: {error}"
        self.best = state["best"]
        for name, part in parts.items():
            part.load_state_dict(state["parts"].pop(name))
        return ""

    def after_step(self, step: int, *, save: bool = False) -> None:
        """Save if told, or if it is time; raise `SystemExit` then if the run was asked to stop."""
        if save or self.stop or time.monotonic() - self._last > self.every:
            self.save(step)
        if self.stop:
            raise SystemExit(f"stopped by signal {self.stop}; the next run resumes from here")

    def save(self, step: int) -> None:
        """Write the state after `step` (from 1), and remove what it replaces."""
        name = f"state-{step}.pt"
        parts = {name: part.state_dict() for name, part in self.parts.items()}
        state = {"computed_on": self._computed_on, "best": self.best, "parts": parts}
        with whole(self.folder / name) as temporary, temporary.open("wb") as file:
            torch.save(moved(state, torch.device("cpu")), file)
        self._last = time.monotonic()
        self.clear(name, self.best)

    def clear(self, *but: str) -> None:
        """Remove all states and weights but these."""
        for path in {*self.folder.glob("state-*.pt"), *self.folder.glob("best-*.safetensors")}:
            if path.name not in but:
                path.unlink()
