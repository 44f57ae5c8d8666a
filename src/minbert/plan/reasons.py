"""Why a job would run: how its node differs from the nearest one that has run."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from minbert.base.errors import UserError
from minbert.base.progress import some
from minbert.plan.describe import about
from minbert.plan.plan import Plan
from minbert.store.node import Node, canonical
from minbert.store.plans import described_in

NEVER = "has never run"
Changes = dict[str, tuple[Any, Any]]
LONGEST = 30
"""The most characters of an old and a new value that are shown."""


class PreviousRuns:
    """The nodes with results that `plan` does not have, of earlier plans."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._nodes: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for path in sorted((plan.root / "store" / "spec").glob("*.json")):
            with suppress(UserError):  # A damaged one, which counts as never planned.
                described = described_in(path)
                at = described["kind"], described["key"]
                if at not in plan.nodes and plan.root.joinpath("store", *at).is_dir():
                    self._nodes[_role(described)].append(described)

    def reason(self, node: Node) -> str:
        """Return in a few words how `node` differs from the one that was what it is now.

        That has the same title, and for a training the same paper, variant and stage; of several it
        is the nearest.
        """
        new = json.loads(canonical(node.describe() | about(self.plan, node)))
        found = [changes(facts(old), facts(new)) for old in self._nodes[_role(new)]]
        return some(shown(min(found, key=len))) if found else NEVER


def _role(described: Mapping[str, Any]) -> str:
    """Return what a node is to people, whatever it is made from, with its kind."""
    return canonical([described["kind"], described.get("owner") or described.get("title")])


def facts(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that decides a node's key: settings, then code and inputs."""
    code = {f"code of {name.removeprefix('minbert.')}": o for name, o in described["code"].items()}
    needs = {f"input {name}": need["key"] for name, need in described["needs"].items()}
    return described["spec"] | code | needs


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
