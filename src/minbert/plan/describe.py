"""What is said of a plan: the descriptions that jobs read, and names for people."""

import json
from dataclasses import asdict
from typing import Any

from minbert.plan.experiment import Experiment
from minbert.plan.plan import Plan
from minbert.spec.task import Task
from minbert.store.code import files_digest
from minbert.store.node import Node, canonical
from minbert.store.plans import write_description, write_plan


def write(plan: Plan) -> str:
    """Write what the plan's jobs read, as a workflow starts; return the name of its record."""
    for node in plan.nodes.values():
        described = {**node.describe(), **about(plan, node), "files": files_digest(node.code)}
        write_description(plan.root, json.loads(canonical(described)))
    plan.sources.cache.save()
    return write_plan(plan.root, record_of(plan))


def record_of(plan: Plan) -> dict[str, Any]:
    """Return the record of a plan (`store.plans`): what it publishes, what its jobs are told."""
    jobs = {}
    for (kind, key), node in plan.nodes.items():
        fetched = {n: o.describe() for n, o in node.needs.items() if o.node.kind == "fetch"}
        # Besides its description, which others of its key may share.
        jobs[f"{kind}-{key}"] = {"extra": node.extra, "needs": fetched}
    record = {
        **plan.publication,
        "tracking": plan.config.tracking.enabled,
        "stamp": plan.stamp,
        "options": plan.options,
        "configured": plan.configured,
        "checksums": plan.sources.checksums,
        "jobs": jobs,
        "tasks": [Task.of(*entry).model_dump() for entry in plan.config.tasks.items()],
    }
    return dict(json.loads(canonical(record)))


def about(experiment: Experiment, node: Node) -> dict[str, Any]:
    """Return a node's title, and the paper, variant and stage that a training job is for first.

    That comes with the tasks of the paper's overall score.
    """
    told: dict[str, Any] = {"title": title(experiment, node), "owner": None}
    if owner := experiment.owners.get(node.key):
        (grid,) = (grid for grid in experiment.grids if grid.paper == owner.paper)
        told |= {"owner": asdict(owner), "overall_tasks": grid.overall_tasks}
    return told


def title(experiment: Experiment, node: Node) -> str:
    """Return a short name of a node for people."""
    if node.kind == "train":
        ref = experiment.owners[node.key]
        tasks = "+".join(experiment.every[ref].spec.trained_tasks)
        stage = "" if ref.stage == "main" else f"/{ref.stage}"
        return f"{ref.variant}{stage} . {tasks}"
    spec = {**node.extra, **node.spec}
    return str(spec.get("task") or spec.get("name") or spec.get("paper") or node.kind)
