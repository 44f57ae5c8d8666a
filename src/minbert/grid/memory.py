"""What a training job needs of its device's memory, estimated before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minbert.grid.architecture import NUMBER, Architecture
from minbert.grid.operations import TOKENS, Rows
from minbert.grid.parameters import Counts
from minbert.grid.spec import StageSpec

LARGER = 2.0
"""A step's largest batches have about this many times the mean tokens."""

PROCESS = 10**9
"""Bytes of a process that computes nothing yet: libraries, and on a GPU its context."""


class Memory(NamedTuple):
    """Bytes by what they are for."""

    weights: int
    gradients: int
    moments: int
    activations: int
    features: int

    @property
    def total(self) -> int:
        """All of it, with the process itself."""
        return PROCESS + sum(self)


def memory(
    spec: StageSpec,
    arch: Architecture,
    counts: Counts,
    rows: Mapping[str, Rows],
    graphs: bool = False,
) -> Memory:
    """Estimate what one job of a stage holds at most on its device.

    Weights are there once, gradients and AdamW's two moments for the parameters that are trained,
    activations for one batch at a time; surgery keeps each task's gradients, SMART a second pass.
    CUDA `graphs`, which SMART has none of, have gradients and activations of their own once more.
    With a frozen encoder there are features instead of an encoder. A head that cannot be counted
    counts as none.
    """
    heads = counts["heads"] or 0
    trained = counts["trainable"] or counts["encoder"]
    if spec.trainable == "heads":
        held = sum(sum(rows[task]) * _sequences(spec, task) for task in spec.tasks)
        return Memory(
            heads * NUMBER, heads * NUMBER, 2 * heads * NUMBER, 0, held * arch.hidden * NUMBER
        )
    recorded = graphs and not spec.smart
    gradients = trained * ((1 + len(spec.trained_tasks) if spec.surgery else 1) + recorded)
    batches = [_activations(spec, arch, task) for task in spec.trained_tasks]
    return Memory(
        (counts["encoder"] + heads) * NUMBER,
        gradients * NUMBER,
        2 * trained * NUMBER,
        max(batches) * (2 if spec.smart or recorded else 1),
        0,
    )


def _activations(spec: StageSpec, arch: Architecture, task: str) -> int:
    sequences = _sequences(spec, task)
    longest = min(spec.max_length, arch.positions)
    tokens = min(LARGER * TOKENS[task] / sequences, longest)
    return int(spec.tasks[task].batch_size * sequences * arch.activation_bytes(tokens))


def _sequences(spec: StageSpec, task: str) -> int:
    """Return how many sequences an example makes: two where sentences are encoded apart."""
    return 2 if spec.tasks[task].pairing == "siamese" else 1
