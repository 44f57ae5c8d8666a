"""Our side: the loop's own steps and its own pass over a dev set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.workload import Workload
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.train.checkpoints import Checkpoints
from minbert.train.run import Loop
from minbert.train.samplers import Step
from minbert.train.trainable import Sources

LOSSES = {
    "classification": "cross_entropy",
    "binary": "binary_cross_entropy",
    "regression": "mse",
}
SIAMESE = {"pairing": "siamese", "features": ["u", "v", "|u-v|"]}


def stage(
    tasks: dict[str, dict[str, Any]], *, batch: int, dropout: float, **settings: Any
) -> StageSpec:
    """Return a stage on `tasks`: one linear layer on the pooled first token, batches of `batch`."""
    specs = {}
    for task, chosen in tasks.items():
        head = {"depth": 1, "dropout": 0.0}
        known = TASKS[task]
        pair = {"pairing": "cross"} if known.pair else {}
        specs[task] = {"loss": LOSSES[known.kind], "batch_size": batch, "head": head, **pair}
        specs[task] |= chosen
    return StageSpec.model_validate(
        {
            "tasks": specs,
            "epochs": 1,
            "optimiser": {"lr": 1e-5},
            "dropout": dict.fromkeys(("embedding", "sublayer", "attention"), dropout),
            **settings,
        }
    )


class Ours:
    """The loop of a stage on a workload."""

    def __init__(
        self, spec: StageSpec, workload: Workload, device: torch.device, precision: str
    ) -> None:
        given = workload.sources
        tokens = {task: given.tokens[task] for task in spec.tasks}
        features = {task: path for task, path in given.features.items() if task in spec.tasks}
        sources = Sources(given.backbone, tokens, features)
        nowhere = Checkpoints(given.backbone)  # Nothing is kept: single steps are made.
        how = {"device": str(device), "precision": precision, "threads": torch.get_num_threads()}
        self.loop = Loop(spec, 0, sources, nowhere, title="benchmark", **how)
        self.learner = self.loop.model
        self.learner.module.train()

    def train(self, steps: Sequence[Step]) -> list[torch.Tensor]:
        """Make one optimiser step per batch, as the loop does; return the tasks' losses."""
        for step in steps:
            self.loop.step(step)
        losses = [loss for *_, loss, _ in self.loop.history.unread]
        self.loop.history.unread.clear()
        return losses

    def predict(self, task: str) -> torch.Tensor:
        """Return the outputs of a whole dev set, as an evaluation does."""
        self.learner.module.eval()
        return self.learner.outputs(task, "dev")
