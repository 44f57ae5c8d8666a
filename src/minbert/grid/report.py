"""The node of the report: all tables, figures and records that it shows."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.grid.links import StageRef
from minbert.grid.node import Need, Node

if TYPE_CHECKING:
    from minbert.grid.plan import Plan

PAGE = Path(__file__).parents[1] / "report"
TEMPLATES = ("page.html.j2", "style.css")
UNSHOWN = (
    *("results", "device", "precision", "cuda_graphs", "threads", "checkpoint_seconds"),
    *("keep_weights", "tracking", "course", "lmrd"),
)
"""Of the configuration: what changes no result, so that it changes no report either."""


def report_node(plan: Plan) -> Node:
    """Return the node of the report; `plan` takes it in.

    Needs are named by what they are: `table/PAPER`, `scores/PAPER`, `figure/NAME`, `run/KEY/SEED`,
    `data/TASK`, `index` and `claims`. What tables and figures are called is in their own specs.
    """
    needs = {"index": Need(plan.index, "index.csv")}
    if plan.claims:
        needs["claims"] = Need(plan.claims, "claims.csv")
    for paper, made in plan.outputs.items():
        needs[f"table/{paper}"] = Need(made.table, "table.csv")
        needs[f"scores/{paper}"] = Need(made.scores, "scores.parquet")
    for name, node in plan.figures.items():
        needs[f"figure/{name}"] = Need(node, "figure.png")
    for node, seed in plan.runs():
        needs[f"run/{node.key}/{seed}"] = Need(node, "run.json", seed)
    tasks = dict.fromkeys(t for stage in plan.stages.values() for t in stage.spec.ordered_tasks)
    needs |= {f"data/{task}": Need(plan.sources.data(task), "report.json") for task in tasks}
    config = plan.config.model_dump(mode="json", exclude_defaults=True, exclude=set(UNSHOWN))
    spec = {
        "backbone": plan.config.backbone,
        "data": plan.config.data,
        "seeds": list(plan.config.seeds),
        "config": config,
        "stages": [_stage(plan, ref) for ref in plan.stages],
        "templates": {name: _digest(name) for name in TEMPLATES},
    }
    return Node("report", spec, ("minbert.report.make",), needs)


def _stage(plan: Plan, ref: StageRef) -> dict[str, Any]:
    return {
        "paper": ref.paper,
        "variant": ref.variant,
        "stage": ref.stage,
        "label": plan.variant(ref).label,
        "tasks": list(plan.stages[ref].spec.trained_tasks),
        "key": plan.train(ref).key,
    }


def _digest(name: str) -> str:
    """Return the hash of a template, which no syntax tree holds."""
    return hashlib.sha256((PAGE / name).read_bytes()).hexdigest()
