"""Going on where an interrupted run stopped, with the same bits as one that was not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from minbert.train.state import StateFile, read_tensors

if TYPE_CHECKING:
    from minbert.train.loop import Loop


class Checkpoints:
    """Saves a loop's state every `every` seconds, after each epoch, and when asked to stop.

    Saved are weights, moments, all generators, and the history; the best epoch's weights are in
    a file of their own in the same folder;
    of the sampler, its generator at the epoch's start and the steps done since; of the epoch
    so far, the predictions on train.
    """

    def __init__(self, file: StateFile, every: float) -> None:
        self.file = file
        self.every = every
        self.stop: int | None = None
        """The signal that asked the run to stop, if one did."""
        self._saved = time.monotonic()

    def after_step(self, loop: Loop) -> None:
        """Save if it is time; save and leave (`SystemExit`) if the run was asked to stop.

        What one process is asked, all do, after the same step.
        """
        due = time.monotonic() - self._saved > self.every
        stop, save = loop.peers.most(self.stop or 0, int(due))
        if stop:
            self.save(loop)
            raise SystemExit(f"stopped by signal {stop}; the next run goes on from here")
        if save:
            self.save(loop)

    def save(self, loop: Loop) -> None:
        """Write the state of `loop`, which stands between two steps.

        Of several processes, which hold the same but for what they draw, the first one writes.
        """
        loop.meter.flush()
        loop.read_clock()
        drawn = loop.peers.gather(_generators(loop))
        seen = loop.peers.total(loop.learner.tokens_seen)
        tensors = _prefixed("model", loop.learner.weights())
        tensors |= _prefixed("optimiser", loop.optimiser.state())
        tensors |= _prefixed("generator", drawn) | _prefixed("fit", loop.fit.state())
        facts = {
            "position": vars(loop.position),
            "best_crc32": loop.best.crc32,
            "device": loop.device.type,
            "history": loop.history.rows,
            "meter": {"sums": loop.meter.sums, "latest": loop.meter.latest},
            "tokens_seen": seen,
        }
        if loop.peers.first:
            self.file.save(loop.position.step, tensors, facts)
            loop.best.is_named(loop.position.best_epoch)
        loop.peers.wait()
        self._saved = time.monotonic()

    def restore(self, loop: Loop) -> str:
        """Put a saved state into a fresh `loop`; return what was done, in words, "" for nothing."""
        found = self.file.load()
        if isinstance(found, str):
            return f"starting anew: {found}" if found else ""
        path, facts = found
        if facts["device"] != loop.device.type:
            # Of embeddings, other things are kept on a CPU than elsewhere.
            return f"starting anew: {path} was saved on {facts['device']}, not {loop.device.type}"
        if wrong := loop.best.resume(facts["position"]["best_epoch"], facts["best_crc32"]):
            return f"starting anew: {wrong}"
        # One after the other: together they would be most of a second state in memory.
        loop.learner.restore(read_tensors(path, "model"))
        loop.optimiser.load(read_tensors(path, "optimiser"))
        loop.fit.load(read_tensors(path, "fit"))
        states = read_tensors(path, "generator")
        for name in _generators(loop):
            state = states.get(loop.peers.name(name))
            # A state of fewer processes has none of this one's, which then draws as from the start.
            if state is not None:
                _set_generator(loop, name, state)
        vars(loop.position).update(facts["position"])
        loop.history.replay([tuple(row) for row in facts["history"]])
        loop.meter.sums, loop.meter.latest = facts["meter"]["sums"], facts["meter"]["latest"]
        loop.learner.tokens_seen = facts["tokens_seen"] if loop.peers.first else 0
        return f"going on after step {loop.position.step} of {loop.total}"


def _generators(loop: Loop) -> dict[str, Tensor]:
    """Return the state of every generator that the run draws from, uint8 [n]."""
    states = {
        "torch": torch.get_rng_state(),
        "epoch": loop.epoch_start,
        "surgery": loop.gradients.generator.get_state(),
    }
    if loop.device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(loop.device)
    if loop.gradients.penalty is not None:
        states["penalty"] = loop.gradients.penalty.generator.get_state()
    return states


def _set_generator(loop: Loop, name: str, state: Tensor) -> None:
    if name == "torch":
        torch.set_rng_state(state)
    elif name == "cuda":
        torch.cuda.set_rng_state(state, loop.device)
    elif name == "epoch":
        loop.epoch_start = state
    elif name == "surgery":
        loop.gradients.generator.set_state(state)
    elif loop.gradients.penalty is not None:
        loop.gradients.penalty.generator.set_state(state)


def _prefixed(prefix: str, tensors: dict[str, Any]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}
