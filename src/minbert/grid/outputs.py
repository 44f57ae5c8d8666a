"""The nodes of what people look at: scores, tables, figures, and the index of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from minbert.grid.figures import paper_figure
from minbert.grid.node import Need, Node
from minbert.grid.resolve import Grid
from minbert.grid.tables import table_spec
from minbert.grid.tasks import task_facts

if TYPE_CHECKING:
    from minbert.grid.plan import Plan


@dataclass(frozen=True)
class Outputs:
    """The nodes of a paper's scores, table and figures."""

    scores: Node
    table: Node
    figures: dict[str, Node]


def paper_outputs(plan: Plan, grid: Grid) -> Outputs:
    """Return the nodes that show what a paper's runs came to; `plan` takes them in."""
    runs: list[dict[str, Any]] = []
    needs: dict[str, Need] = {}
    for variant in grid.variants.values():
        for seed in plan.config.seeds:
            entry = {"paper": grid.paper, "variant": variant.name, "seed": seed}
            entry["tested"] = variant.test
            if variant.best_of:
                choice = {"best_of": variant.best_of, "by": variant.best_by}
                runs.append(entry | choice | {"key": "", "rule": grid.overall})
                continue
            trained = {task: plan.train(s.ref) for task, s in plan.scored(variant).items()}
            entry["key"] = plan.train(variant.stages[-1].ref).key
            runs.append(entry | {"tasks": {task: node.key for task, node in trained.items()}})
            for node in trained.values():
                for file in ("predictions", "history"):
                    needs[f"{file}.{node.key}.{seed}"] = Need(node, f"{file}.parquet", seed)
    tasks = sorted({task for run in runs for task in run.get("tasks", {})})
    scores = Node(
        "scores", {"runs": runs, "tasks": facts(tasks)}, ("minbert.evaluate.score",), needs
    )
    plan.collect(scores)
    table = Node(
        "table",
        table_spec(plan, grid),
        ("minbert.evaluate.table",),
        {"scores": Need(scores, "scores.parquet")},
    )
    plan.collect(table)
    made = Outputs(scores, table, {})
    figures = {n: paper_figure(plan, grid, made, n, spec) for n, spec in grid.figures.items()}
    return replace(made, figures=figures)


def index_node(plan: Plan) -> Node:
    """Return the node of the index of all published rows."""
    needs = {
        f"table.{paper}": Need(made.table, "table.csv") for paper, made in plan.outputs.items()
    }
    rows = [asdict(row) for row in plan.published]
    return Node("index", {"published": rows}, ("minbert.evaluate.index",), needs)


def facts(tasks: Iterable[str]) -> dict[str, Any]:
    """Return what decides each task's results, to be part of a spec."""
    return {task: task_facts(task) for task in tasks}
