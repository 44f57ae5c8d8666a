"""Whether two sides compute the same: losses of steps without dropout, before anything is timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.ours import Ours
from minbert.train.samplers import Step

AGREE = 1e-4
"""The most that the losses of ours and of the peer may differ, both in fp32."""

NEAR = 0.02
"""The most that a loss of ours in bf16 may differ from that in fp32, relative to it."""

COMPARED = 50
"""Losses compared between bf16 and fp32: of steps, or of parts of a dev set."""

SMALL = 4
"""Examples a task in those steps. A dozen would take as long as the timing itself."""


def draw_steps(tasks: Mapping[str, Any], batch: int, count: int, seed: int) -> list[Step]:
    """Return `count` steps of `batch` random training rows of each of the `tasks`."""
    draw = torch.Generator().manual_seed(seed)
    return [
        [(task, torch.randperm(512, generator=draw)[:batch]) for task in tasks]
        for _ in range(count)
    ]


def gap(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    """Return the largest difference between the two sides' losses."""
    return max(abs(x.item() - y.item()) for x, y in zip(a, b, strict=True))


def relative_gap(found: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """Return the largest difference of a loss, as a share of the exact one."""
    pairs = zip(found, exact, strict=True)
    return max(abs(x.item() - y.item()) / abs(y.item()) for x, y in pairs)


def dev_losses(ours: Ours, task: str, outputs: Tensor) -> list[Tensor]:
    """Return the losses of `COMPARED` parts of a dev set from its outputs [N, n]."""
    labels = ours.learner.examples[task]["dev"].labels
    loss = ours.learner.losses[task].loss
    parts = zip(outputs.float().tensor_split(COMPARED), labels.tensor_split(COMPARED), strict=True)
    return [loss(*part) for part in parts]


def check(differ: float | None, bf16: float | None) -> None:
    """Raise `ValueError` if the losses of a case say that it is not the same work.

    `differ` is ours against the peer's in fp32; `bf16` is ours in bf16 against fp32, relative.
    """
    if differ is not None and not differ < AGREE:
        raise ValueError(
            f"losses differ by {differ:.2g} from the peer's (at most {AGREE:g}): not the same work"
        )
    if bf16 is not None and not bf16 < NEAR:
        raise ValueError(f"a loss in bf16 is {bf16:.2%} off the one in fp32 (at most {NEAR:.0%})")
