"""Plans of small grids, and files as jobs leave them. One factory each, for all tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from planning import TWO_STAGES, planning_folder

from minbert.evaluate.score import make
from minbert.plan.describe import write
from minbert.plan.outputs import load_plan
from minbert.plan.plan import Plan
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.resolve import StageRef
from minbert.store.node import Node
from minbert.store.plans import PUBLISHED, SCORES, VARIANTS
from minbert.train.history import PREDICTIONS
from minbert.train.history import SCHEMA as HISTORY


def make_plan(folder: Path, grid: str = TWO_STAGES, **config: Any) -> Plan:
    """Return the plan of `grid` (YAML), of the built-in data and backbone unless `config` says."""
    planning_folder(folder, grid)
    values = {"grids": "g", "data": "builtin", "backbone": "builtin", "device": "cpu"}
    return load_plan({**values, "results": str(folder / "results"), **config}, folder)


def training(plan: Plan, variant: str, stage: str = "main") -> Node:
    """Return the training of a variant of the first grid."""
    ref = StageRef(plan.grids[0].paper, variant, stage)
    return plan.nodes["train", plan.train(ref).key]


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


def put_rows(path: Path, rows: Iterable[dict[str, Any]], schema: pa.Schema | None = None) -> Path:
    """Write a table of rows; what a row does not have is null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
    return path


def edit_rows(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change each row of a table in place."""
    table = pq.read_table(path)
    for row in (rows := table.to_pylist()):
        edit(row)
    put_rows(path, rows, table.schema)


def history(path: Path, *rows: tuple[int, str, str, str, float], length: int = 1) -> Path:
    """Write a history of (step, split, task, metric, value), epochs of `length` steps."""
    names = ("epoch", "time", "step", "split", "task", "metric", "value")
    lines = [((row[0] - 1) // length + 1, row[0], *row) for row in rows]
    return put_rows(path, (dict(zip(names, line, strict=True)) for line in lines), HISTORY)


def predictions(path: Path, *rows: tuple[str, str, str, float, float | None]) -> Path:
    """Write (id, task, split, prediction, label) of a run, and an empty history beside that."""
    names = ("id", "task", "split", "prediction", "label")
    lines = [{"scores": [row[3]], **dict(zip(names, row, strict=True))} for row in rows]
    history(path.with_name("history.parquet"))
    return put_rows(path, lines, PREDICTIONS)


def score(
    path: Path,
    *variants: dict[str, Any],
    seeds: Iterable[int] = (0,),
    at: str = "{}.{}",
    labels: Mapping[str, Path] = {},
    **more: Any,
) -> list[dict[str, Any]]:
    """Score variants of paper `p` to `path`, beside which their runs lie `at` KEY and SEED.

    A variant's `tasks` are {task: key}; what else the plan says of it may be missing.
    """

    def need(name: str) -> Path:
        key, _, seed = name.removeprefix("run.").rpartition(".")
        return path.parent / at.format(key, seed) / "run.json"

    blank = {"key": "own", "tasks": {}, "tried": [], "tuned_for": None, "best_of": [], "by": ""}
    spec = {"paper": "p", "rule": "plain", "single": None, "overall_tasks": OVERALL_TASKS}
    spec |= {"seeds": seeds, "variants": [blank | {"tested": False} | of for of in variants]}
    job: Any = SimpleNamespace(spec=spec | more, out=path.parent, need=need)
    job.needs = lambda _: labels
    make(job)
    path.with_name("scores.parquet").rename(path)
    return pq.read_table(path).to_pylist()
