"""Plans of small grids, and what the jobs of a plan leave. One factory each, for all tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from planning import TWO_STAGES, planning_folder

from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef
from minbert.store.node import Node
from minbert.store.plans import PUBLISHED, SCORES, VARIANTS


def make_plan(folder: Path, grid: str = TWO_STAGES, **config: Any) -> Plan:
    """Return the plan of `grid` (YAML), of the built-in data and backbone unless `config` says."""
    planning_folder(folder, grid)
    values = {"grids": "g", "data": "builtin", "backbone": "builtin", "device": "cpu"}
    return Plan.load({**values, "results": str(folder / "results"), **config}, folder)


def training(plan: Plan, variant: str, stage: str = "main") -> Node:
    """Return the training of a variant of the first grid."""
    return plan.training(StageRef(plan.grids[0].paper, variant, stage))


def drawn(plan: Plan, paper: str) -> dict[str, Node]:
    """Return the nodes of a paper's figures by name."""
    start = f"figures/{paper}/"
    return {n.removeprefix(start): node for n, node in plan.shown.items() if n.startswith(start)}


def put(path: Path, text: str = "") -> None:
    """Write a file without waiting for the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def finish(plan: Plan, *nodes: Node, device: str = "cpu", seconds: float = 30.0) -> None:
    """Leave the files of `nodes` with all seeds, or all that a whole workflow leaves."""
    published = write(plan)
    record: dict[str, Any] = {"outcome": {"seconds": seconds}, "environment": {"device": device}}
    rows = {"rows": {"train": 90, "dev": 10, "test": 10}}
    for node in nodes or plan.nodes.values():
        for seed in plan.config.seeds if node.kind == "train" else (None,):
            for name in node.outputs:
                record["spec"] = node.spec.get("stage", {})
                text = {"run.json": json.dumps(record), "report.json": json.dumps(rows)}
                put(node.folder(plan.root, seed) / name, text.get(name, "{}"))
    if nodes:
        return
    for name in (*plan.products, SCORES, VARIANTS):
        put(plan.names / name, "whole")
    page = {"plan": published, "stamp": plan.stamp, "names": []}
    put(plan.names / PUBLISHED, json.dumps(page))
    put(plan.mark)
