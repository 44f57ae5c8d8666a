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
    """A part of a run that must survive an interruption: the attributes whose names are `kept`.

    They are tensors, generators, parts and plain values, in dicts and lists; None is no part.
    """

    kept: ClassVar[tuple[str, ...]] = ()


def state_of(value: Any) -> Any:
    """Return what a part, or a value in it, needs to go on: tensors on the CPU, plain values."""
    if isinstance(value, Part):
        return tree_map(state_of, {name: getattr(value, name) for name in value.kept})
    if isinstance(value, Generator):
        return value.get_state()
    return value.detach().cpu() if isinstance(value, Tensor) else value


def restored(now: Any, state: Any) -> Any:
    """Return `now`, as `state_of` found it, in the same places and on the same devices."""
    if isinstance(now, Part):
        for name in now.kept:
            setattr(now, name, restored(getattr(now, name), state[name]))
    elif isinstance(now, Generator):
        now.set_state(state)
    elif isinstance(now, Tensor):  # A parameter stays the one that is trained.
        now.data = state.to(now.device)
    elif isinstance(now, dict):
        return {name: restored(now.get(name), each) for name, each in state.items()}
    elif isinstance(now, list) and len(now) == len(state):
        return [restored(*pair) for pair in zip(now, state, strict=True)]
    else:
        return state
    return now


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
        self._last = time.monotonic()

    def keep_best(self, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Write the weights of `epoch` (from 1), the best one so far."""
        self.best = f"best-{epoch}.safetensors"
        save_weights(self.folder / self.best, weights)

    def resume(self, run: Part, computed_on: str) -> str:
        """Load the newest state, if any, into `run`, to be saved later; return why not, or ""."""
        self.run, self.computed_on = run, computed_on
        states = self.folder.glob("state-*.pt")
        path = max(states, key=lambda state: state.stat().st_mtime_ns, default=None)
        if path is None:
            return ""
        try:
            with ZipFile(path) as file:  # torch writes checksums, but reads none.
                damaged = file.testzip()
            state = torch.load(path, map_location="cpu", weights_only=True)
            # On a CPU, embeddings have a different state.
            if damaged or state["computed_on"] != computed_on:
                raise ValueError("damaged, or from another device or precision")
            if state["best"]:
                load_weights(self.folder / state["best"])  # whole if they can be read
        except Exception as error:  # Damaged bytes raise errors of all kinds.
            return f"{path} cannot be used: {error}"
        self.best = state["best"]
        restored(run, state["run"])
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
        state = {"computed_on": self.computed_on, "best": self.best, "run": state_of(self.run)}
        with whole(self.folder / name) as temporary, temporary.open("wb") as file:
            torch.save(state, file)
        self._last = time.monotonic()
        self.clear(name, self.best)

    def clear(self, *but: str) -> None:
        """Remove all states and weights but these."""
        for path in {*self.folder.glob("state-*.pt"), *self.folder.glob("best-*.safetensors")}:
            if path.name not in but:
                path.unlink()
