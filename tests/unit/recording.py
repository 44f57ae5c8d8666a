"""Recordings without a GPU: the same work on the same tensors, done again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from minbert.common.progress import Progress
from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.train import loop as loops
from minbert.train.best import Best
from minbert.train.graphs import Graphs
from minbert.train.history import History
from minbert.train.loop import Loop

CPU = torch.device("cpu")


class Again:
    """Plays a recording by doing its work again."""

    def __init__(self) -> None:
        self.played = 0

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        def play() -> None:
            self.played += 1
            work()

        return play


class Failing(Again):
    """Makes `good` recordings, then raises `error`."""

    def __init__(self, good: int, error: BaseException) -> None:
        super().__init__()
        self.good, self.error = good, error

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        self.good -= 1
        if self.good < 0:
            raise self.error
        return super().record(work)


def make_loop(
    spec: StageSpec, sources: Any, recorder: Any = None, say: Callable[[str], None] = print
) -> Loop:
    """Return the loop of `spec` in training mode, with recordings if there is a `recorder`.

    Embeddings have dense gradients, as on a GPU.
    """
    torch.manual_seed(0)
    learner = load_part("trainable", spec.trainable)(spec, sources(*spec.tasks), CPU)
    with patch.object(loops, "embeddings", lambda module: ()):
        nowhere = Best(Path("nothing is kept"))
        loop = Loop(spec, learner, 0, CPU, "fp32", History(), Progress("run"), nowhere)
    if recorder is not None:
        loop.gradients.graphs = Graphs(loop.gradients, recorder, say)
    learner.module.train()
    return loop


def train(loop: Loop, steps: int) -> list[float]:
    """Make so many steps of the loop's own batches; return the tasks' losses."""
    made = 0
    while made < steps:
        for batch in loop.sampler.epoch():
            loop.train_step(batch)
            made += 1
            if made == steps:
                break
    return [loss.item() for *_, loss in loop.meter.waiting]
