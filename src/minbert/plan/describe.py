"""What is said of a plan: descriptions that jobs read, names for people, why a job would run."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from minbert.base.progress import some
from minbert.plan.outputs import UNSHOWN
from minbert.plan.plan import Plan
from minbert.spec.task import Task
from minbert.store.node import Node, canonical
from minbert.store.plans import descriptions, write_description, write_plan

Changes = dict[str, tuple[Any, Any]]
PATHS = {"course", "lmrd", "labels"}  # of a configuration, under which its checksums are
LONGEST = 30  # characters of an old and a new value that are shown


def write(plan: Plan) -> str:
    """Write what the plan's jobs read, as a workflow starts; return the name of its record."""
    for node in plan.nodes.values():
        write_description(plan.root, node.describe() | about(plan, node))
    plan.sources.cache.save()
    return write_plan(plan.root, record_of(plan))


def record_of(plan: Plan) -> dict[str, Any]:
    """Return the record of a plan (`store.plans`): what it publishes, what its jobs are told."""
    jobs = {}
    for (kind, key), node in plan.nodes.items():
        fetched = {n: o.describe() for n, o in node.needs.items() if o.node.kind == "fetch"}
        # Besides its description, which others of its key may share.
        jobs[f"{kind}-{key}"] = {"extra": node.extra, "needs": fetched}
    return {
        **plan.publication,
        "stamp": plan.stamp,
        "options": plan.options,
        "configured": plan.configured,
        "checksums": plan.checksums,
        "config": plan.config.model_dump(mode="json", exclude=UNSHOWN - PATHS),
        "jobs": jobs,
        "tasks": [Task.of(*entry).model_dump() for entry in plan.config.tasks.items()],
    }


def about(plan: Plan, node: Node) -> dict[str, Any]:
    """Return a node's title, and the paper, variant and stage that a training job is for first."""
    told: dict[str, Any] = {"title": title(plan, node), "owner": None}
    if owner := plan.owners.get(node.key):
        (grid,) = (grid for grid in plan.grids if grid.paper == owner.paper)
        told |= {"owner": asdict(owner), "overall_tasks": grid.overall_tasks}
    return told


def title(plan: Plan, node: Node) -> str:
    """Return a short name of a node for people."""
    if node.kind == "train":
        ref = plan.owners[node.key]
        tasks = "+".join(plan.every[ref].spec.trained_tasks)
        stage = "" if ref.stage == "main" else f"/{ref.stage}"
        return f"{ref.variant}{stage} . {tasks}"
    spec = {**node.extra, **node.spec}
    return str(spec.get("task") or spec.get("name") or spec.get("paper") or node.kind)


class PreviousRuns:
    """The nodes with results that `plan` does not have, of earlier plans."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._nodes: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for described in descriptions(plan.root):
            at = described["kind"], described["key"]
            if at not in plan.nodes and plan.root.joinpath("store", *at).is_dir():
                self._nodes[self._role(described)].append(described)

    @staticmethod
    def _role(described: Mapping[str, Any]) -> str:
        """Return what a node is to people, whatever it is made from, with its kind."""
        return canonical([described["kind"], described.get("owner") or described.get("title")])

    def reason(self, node: Node) -> str:
        """Return how `node` differs from the nearest one that was its stage, or had its title."""
        new = json.loads(canonical(node.describe() | about(self.plan, node)))
        found = [changes(facts(old), facts(new)) for old in self._nodes[self._role(new)]]
        return some(shown(min(found, key=len))) if found else "has never run"


def facts(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that decides a node's key: settings, a training's tasks, then code and inputs."""
    spec = dict(described["spec"])
    tasks = spec.pop("tasks") if described["kind"] == "train" else {}
    spec |= {f"task {name}": of for name, of in tasks.items()}
    code = {f"code of {name.removeprefix('minbert.')}": o for name, o in described["code"].items()}
    needs = {f"input {name}": need["key"] for name, need in described["needs"].items()}
    return spec | code | needs


def changes(old: Any, new: Any, name: str = "") -> Changes:
    """Return {name: (old, new)} of what differs; names of nested settings have dots."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return {name: (old, new)} if old != new else {}
    found: Changes = {}
    for key in dict.fromkeys((*old, *new)):
        found |= changes(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    return found


def shown(found: Changes) -> Iterator[str]:
    """Yield the changes in words, as of YAML; of values that are long, that they changed."""
    for name, pair in found.items():
        old, new = ("null" if value is None else str(value) for value in pair)
        said = "{}: {} -> {}" if len(old) + len(new) <= LONGEST else "{} changed"
        yield said.format(name.removeprefix("stage."), old, new)
