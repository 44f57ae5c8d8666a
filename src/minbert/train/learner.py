"""What the loop trains: the common face of fine-tuned and frozen-encoder models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module, Parameter

from minbert.grid.spec import StageSpec
from minbert.train.distributed import ALONE, Alone


@dataclass(frozen=True)
class Sources:
    """The files that a stage trains on; tasks map to `tokens.parquet` or cached features.

    `start` and `adapters` are weights of earlier stages: the one it starts from, those it fuses.
    """

    backbone: Path
    tokens: dict[str, Path]
    features: dict[str, Path]
    start: Path | None = None
    adapters: tuple[Path, ...] = ()


class Learner(Protocol):
    """A model with its data: batches go in as row numbers, outputs [B, classes] come out."""

    module: Module
    tokens_seen: int

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None: ...

    def size(self, task: str, split: str) -> int:
        """The number of examples of `task` in `split`."""
        ...

    def ids(self, task: str, split: str) -> list[str]:
        """Their ids, in row order."""
        ...

    def labels(self, task: str, split: str) -> Tensor:
        """Their labels [N], float32, NaN where none is public."""
        ...

    def output(self, task: str, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the head's output [B, classes] and labels [B] of training `rows` (CPU int64)."""
        ...

    def activations(self, task: str, rows: Tensor) -> np.ndarray:
        """Estimate what a step keeps for each of the training `rows` [B], bytes [B]."""
        ...

    def outputs(self, task: str, split: str, peers: Alone = ALONE) -> Tensor:
        """Return the head's output [N, classes] of a whole split, without gradients.

        `peers` may share the work; all of them have to ask.
        """
        ...

    def details(self, task: str) -> dict[str, float]:
        """Return what figures show of a trained task on dev besides its scores, by metric."""
        ...

    def shared_parameters(self) -> list[Parameter]:
        """Parameters that more than one task uses."""
        ...

    def own_parameters(self, task: str) -> list[Parameter]:
        """Parameters that `task` alone uses, its head among them."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """All tensors but a frozen backbone's by name, as they are saved."""
        ...

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Put tensors that `weights` gave back into the model."""
        ...
