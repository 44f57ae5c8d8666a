"""What a training job will cost, before it runs: from earlier runs, or from counted operations."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.common.files import read_json
from minbert.grid.architecture import BERT_BASE
from minbert.grid.node import Node
from minbert.grid.parameters import encoder_parameters
from minbert.grid.plan import Plan
from minbert.grid.spec import StageSpec

TOKENS = {"sst": 25, "para": 30, "sts": 28, "cfimdb": 224, "lmrd": 300}
"""Mean tokens of an example, special ones included, in the real data sets."""

SIZES = {
    "sst": (8544, 1101, 2210),
    "para": (141506, 20215, 40431),
    "sts": (6040, 863, 1725),
    "cfimdb": (1707, 245, 488),
    "lmrd": (22500, 2500, 25000),
}
"""Examples of train, dev and test in the real data sets, where the tables are not made yet."""

RATES = {"cpu": 5e10, "cuda": 1e14}
"""Operations a second assumed where nothing was measured: one CPU thread, one data-centre GPU."""


@dataclass(frozen=True)
class Cost:
    """Seconds of one job; `measured` says whether an earlier run of the same stage took so long."""

    seconds: float
    measured: bool


class Costs:
    """Costs of a plan's training jobs."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def of(self, node: Node) -> Cost:
        """Return the cost of one seed of a training node."""
        seconds = [record["outcome"]["seconds"] for record in self._records(node)]
        if seconds:
            return Cost(statistics.median(seconds), True)
        return Cost(self._operations(node.spec["stage"]) / self._rate, False)

    @cached_property
    def _rate(self) -> float:
        rates = []
        for node in self.plan.nodes.values():
            if node.kind != "train" or node.spec["stage"]["trainable"] == "heads":
                continue
            operations = self._operations(node.spec["stage"])
            rates += [operations / r["outcome"]["seconds"] for r in self._records(node)]
        if rates:
            return statistics.median(rates)
        wish = self.plan.config.device
        return RATES["cuda" if wish.startswith("cuda") else "cpu"]

    def _records(self, node: Node) -> list[dict[str, Any]]:
        folder = self.plan.root / "store" / "train" / node.key
        return [read_json(path) for path in sorted(folder.glob("seed*/run.json"))]

    def _operations(self, stage: dict[str, Any]) -> float:
        """Count multiplications and additions: 6 a weight and token forward and back, 2 forward.

        Weights are those of layers and pooler: looking up an embedding costs nothing.
        """
        spec = StageSpec.model_validate(stage)
        shapes = self.plan.sources.architecture or BERT_BASE
        parts = encoder_parameters(shapes)
        weights = parts.layer * shapes.layers + parts.pooler
        sizes = {task: self._sizes(task) for task in spec.tasks}
        if spec.trainable == "heads":
            return 2e4 * sum(sizes[task][0] for task in spec.trained_tasks) * spec.epochs
        trained = {task: sizes[task][0] for task in spec.trained_tasks}
        cap = spec.sampler.examples
        if spec.sampler.name == "sequential":
            drawn = {task: min(n, cap or n) for task, n in trained.items()}
        else:
            drawn = dict.fromkeys(trained, cap or min(trained.values()))
        train = sum(TOKENS[task] * n for task, n in drawn.items()) * spec.epochs
        dev = sum(TOKENS[task] * n[1] for task, n in sizes.items()) * spec.epochs
        test = sum(TOKENS[task] * n[2] for task, n in sizes.items())
        return weights * (6.0 * train + 2.0 * (dev + test))

    def _sizes(self, task: str) -> tuple[int, int, int]:
        report: Path = self.plan.sources.data(task).folder(self.plan.root) / "report.json"
        if not report.exists():
            return SIZES[task]
        rows = read_json(report)["rows"]
        return rows.get("train", 0), rows.get("dev", 0), rows.get("test", 0)
