"""What a training job will cost, before it runs: from earlier runs, or from counted operations."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.common.files import read_json
from minbert.data.corpus import DEFAULT_SIZES
from minbert.devices.cards import visible_cards
from minbert.grid.architecture import BERT_BASE
from minbert.grid.memory import Memory, memory
from minbert.grid.node import Node, digest
from minbert.grid.operations import Rows, batches, feature_operations, operations
from minbert.grid.plan import Plan
from minbert.grid.spec import StageSpec

SIZES = {
    "sst": Rows(8544, 1101, 2210),
    "para": Rows(141506, 20215, 40431),
    "sts": Rows(6040, 863, 1725),
    "cfimdb": Rows(1707, 245, 488),
    "lmrd": Rows(22500, 2500, 25000),
}
"""Examples of train, dev and test in the real data sets, where the tables are not made yet."""

GPU_RATE = 1e14
"""Operations a second that a data-centre GPU is taken to do, in bf16."""

CPU_RATE = 5e10
"""Operations a second that one CPU thread is taken to do, where nothing was measured."""


NO_TIME = (
    *("optimiser", "dropout", "select", "start", "reduction"),
    *("weight", "start_at_prior", "head_from"),
)
"""Settings of a stage and of its tasks that change no job's time by much."""


BATCH_SECONDS = 0.015
"""Seconds that the host of a GPU is taken to need for one batch's forward and backward: small
batches wait for it, however fast the GPU."""


@dataclass(frozen=True)
class Gpu:
    """What a GPU is taken to do: `rate` operations a second, a batch in `batch` seconds or more."""

    rate: float = GPU_RATE
    batch: float = BATCH_SECONDS


@dataclass(frozen=True)
class Cost:
    """Seconds of one job; `measured` says whether runs of the same shape took so long."""

    seconds: float
    measured: bool


class Costs:
    """Costs of a plan's training jobs, here or, if one is given, on GPUs of a kind."""

    def __init__(self, plan: Plan, gpu: Gpu | None = None) -> None:
        self.plan = plan
        self.gpu = gpu

    def of(self, node: Node) -> Cost:
        """Return the cost of one seed of a training node.

        Measured: the median of the node's own runs, else of all finished runs of the same shape,
        on the device that the configuration names, by as many processes. Several processes are
        taken to share the counted work without loss.
        """
        processes = self.plan.processes(node.key)
        if self.gpu is not None:
            busy = self.operations(node) / self.gpu.rate / processes
            return Cost(max(busy, self._batches(node) * self.gpu.batch), False)
        described = node.describe() | self.plan.looks(node)
        seconds = self._own(node) or self._shaped.get(self._shape(described), [])
        if seconds:
            return Cost(statistics.median(seconds), True)
        return Cost(self.operations(node) / self._rate[0] / processes, False)

    def features(self, node: Node) -> float:
        """Return the seconds of encoding a task's sentences, by counted operations."""
        shapes = self.plan.sources.architecture or BERT_BASE
        task, longest = node.spec["task"], node.spec["max_length"]
        rate = self.gpu.rate if self.gpu else self._rate[0]
        return feature_operations(task, longest, shapes, self._rows(task)) / rate

    def gpu_hours(self, node: Node) -> float:
        """Return the hours that one seed would take at `GPU_RATE`, by counted operations."""
        return self.operations(node) / GPU_RATE / 3600

    @property
    def basis(self) -> str:
        """What estimated times rest on, in words."""
        rate, measured = self._rate
        source = "as in finished runs" if measured else "an assumption"
        return f"by counted operations at {rate:.1e} a second ({source})"

    @cached_property
    def _rate(self) -> tuple[float, bool]:
        rates = []
        for node in self.plan.nodes.values():
            if node.kind != "train" or node.spec["stage"]["trainable"] == "heads":
                continue
            operations = self.operations(node)
            share = operations / self.plan.processes(node.key)
            rates += [share / seconds for seconds in self._own(node)]
        if rates:
            return statistics.median(rates), True
        return (GPU_RATE if self._on_gpu else CPU_RATE), False

    @cached_property
    def _on_gpu(self) -> bool:
        wish = self.plan.config.device
        return wish.startswith("cuda") or (wish == "auto" and bool(visible_cards()))

    def _own(self, node: Node) -> list[float]:
        folder = self.plan.root / "store" / "train" / node.key
        return self._seconds(folder, self.plan.processes(node.key))

    def _seconds(self, folder: Path, processes: int) -> list[float]:
        records = [read_json(path) for path in sorted(folder.glob("seed*/run.json"))]
        return [
            record["outcome"]["seconds"]
            for record in records
            if (record.get("environment", {}).get("device", "cpu") != "cpu") == self._on_gpu
            and record.get("processes", 1) == processes
        ]

    @cached_property
    def _shaped(self) -> dict[str, list[float]]:
        """Seconds of all finished runs under the results root, by shape."""
        found: dict[str, list[float]] = {}
        for path in sorted((self.plan.root / "store" / "spec").glob("train-*.json")):
            described = read_json(path)
            folder = self.plan.root / "store" / "train" / described["key"]
            seconds = self._seconds(folder, described.get("processes", 1))
            if seconds:
                found.setdefault(self._shape(described), []).extend(seconds)
        return found

    def _shape(self, described: dict[str, Any]) -> str:
        """Return a hash of what decides a job's time: its spec but for `NO_TIME`, its files' sizes.

        Sizes are those of the examples' tables and of the backbone; where one is not made yet, its
        key stands for it.
        """
        stage = {k: v for k, v in described["spec"]["stage"].items() if k not in NO_TIME}
        stage["tasks"] = {
            name: {k: v for k, v in task.items() if k not in NO_TIME}
            for name, task in stage["tasks"].items()
        }
        needs = described["needs"]
        sizes = {
            name: self._size(need["key"], name.startswith("tokens."))
            for name, need in needs.items()
            if name.startswith("tokens.") or name == "backbone.config.json"
        }
        return digest([stage, sizes, described.get("processes", 1)])

    def _size(self, key: str, tokens: bool) -> Any:
        """Return the rows behind a token table, or the shapes of a backbone."""
        store = self.plan.root / "store"
        if not tokens:
            path = store / "backbone" / key / "config.json"
            return read_json(path) if path.exists() else key
        described = store / "spec" / f"tokens-{key}.json"
        if not described.exists():
            return key
        data = read_json(described)["needs"]["examples"]["key"]
        report = store / "data" / data / "report.json"
        return read_json(report)["rows"] if report.exists() else data

    def operations(self, node: Node) -> float:
        """Count multiplications and additions of one seed of a training node."""
        spec = StageSpec.model_validate(node.spec["stage"])
        shapes = self.plan.sources.architecture or BERT_BASE
        return operations(spec, shapes, {task: self._rows(task) for task in spec.tasks})

    def memory(self, node: Node) -> Memory:
        """Estimate what a training job holds on each of its devices."""
        stage = self.plan.stages[self.plan.owners[node.key]]
        counts = self.plan.counts(stage) or self.plan.counts(stage, base_shapes=True)
        assert counts is not None
        shapes = self.plan.sources.architecture or BERT_BASE
        rows = {task: self._rows(task) for task in stage.spec.tasks}
        return memory(stage.spec, shapes, counts, rows, self.plan.config.cuda_graphs)

    def _batches(self, node: Node) -> float:
        spec = StageSpec.model_validate(node.spec["stage"])
        if spec.trainable == "heads":
            return 0.0  # What a head launches is nothing beside an encoder.
        return batches(spec, {task: self._rows(task) for task in spec.tasks})

    def _rows(self, task: str) -> Rows:
        report: Path = self.plan.sources.data(task).folder(self.plan.root) / "report.json"
        if not report.exists():
            return self._unread(task)
        rows = read_json(report)["rows"]
        return Rows(rows.get("train", 0), rows.get("dev", 0), rows.get("test", 0))

    def _unread(self, task: str) -> Rows:
        """Return the sizes of a data set whose table is not made yet."""
        config = self.plan.config
        if config.data != "builtin":
            return SIZES[task]
        chosen = (config.corpus.sizes or {}).get(task)
        sizes = chosen.model_dump() if chosen else DEFAULT_SIZES[task]
        return Rows(sizes["train"], sizes["dev"], sizes["test"])
