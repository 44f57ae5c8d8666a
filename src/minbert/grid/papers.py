"""What the plan knows of a paper that people are told: in MLflow, and at a workflow's end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.grid.resolve import Grid
from minbert.grid.tasks import TASKS

if TYPE_CHECKING:
    from minbert.grid.plan import Plan


def paper_facts(plan: Plan, grid: Grid) -> dict[str, Any]:
    """Return what describes a paper's grid: its nodes, its words, how it is run, its variants.

    `variants` are {name: {label, tasks: {task: key of the stage that it is scored with}}}, without
    those that are the best of others. `datasets` are {task: key of its example table}.
    """
    made, config = plan.outputs[grid.paper], plan.config
    scored = {variant.name: plan.scored(variant) for variant in grid.variants.values()}
    used = {task for v in grid.variants.values() for s in v.stages for task in s.spec.tasks}
    return {
        "scores": made.scores.key,
        "table": made.table.key,
        "title": grid.title,
        "description": grid.description,
        "rule": grid.overall,
        "file": _below(grid.path, plan.base),
        "seeds": list(config.seeds),
        "source": config.data if config.data == "builtin" else config.course,
        "backbone": config.backbone,
        "revision": config.revision,
        "datasets": {task: plan.sources.data(task).key for task in TASKS if task in used},
        "variants": {
            name: {
                "label": grid.variants[name].label,
                "tasks": {task: plan.train(stage.ref).key for task, stage in of.items()},
            }
            for name, of in scored.items()
            if of
        },
    }


def _below(path: Path, folder: Path) -> str:
    """Return the path as it is under `folder`, or as it is."""
    path, folder = path.absolute(), folder.absolute()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)
