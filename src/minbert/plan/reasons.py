"""Why a job would run: how its node differs from the nearest one that has finished."""

import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from minbert.base.errors import UserError
from minbert.base.progress import some
from minbert.plan.describe import about
from minbert.plan.difference import Changes, changes, facts, shown
from minbert.plan.plan import Plan
from minbert.store.kinds import KINDS
from minbert.store.node import Node, canonical, finished, seed_folders
from minbert.store.plans import described_in

NEVER = "has never run"


class PreviousRuns:
    """The finished nodes under the results root that `plan` does not have, of earlier plans."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._nodes: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for path in sorted((plan.root / "store" / "spec").glob("*.json")):
            with suppress(UserError):  # A damaged one, which counts as never planned.
                described = described_in(path)
                at = described["kind"], described["key"]
                if at not in plan.nodes and described["kind"] in KINDS:
                    self._nodes[_role(described)].append(described)

    def changes(self, node: Node) -> Changes | None:
        """Return how `node` differs from the finished one that was what it is now, the nearest.

        That has the same title, and for a training the same paper, variant and stage.
        """
        new = json.loads(canonical(node.describe() | about(self.plan, node)))
        old = filter(self._finished, self._nodes[_role(new)])
        return min((changes(facts(each), facts(new)) for each in old), key=len, default=None)

    def _finished(self, described: Mapping[str, Any]) -> bool:
        kind = described["kind"]
        folder = self.plan.root / "store" / kind / described["key"]
        folders = seed_folders(folder).values() if KINDS[kind].seeded else [folder]
        return any(finished(kind, each) for each in folders)

    def reason(self, node: Node) -> str:
        """Return in a few words why a node is not done."""
        found = self.changes(node)
        return NEVER if found is None else some(shown(found))


def _role(described: Mapping[str, Any]) -> str:
    """Return what a node is to people, whatever it is made from, with its kind."""
    return canonical([described["kind"], described.get("owner") or described.get("title")])
