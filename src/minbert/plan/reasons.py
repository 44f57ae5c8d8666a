"""Why a job would run: how its node differs from the nearest one that has finished."""

from collections import Counter
from collections.abc import Iterator

from minbert.base.environment import DEPENDENCIES, versions
from minbert.base.errors import UserError, did_you_mean
from minbert.plan.describe import about, title
from minbert.plan.difference import Described, Difference, difference
from minbert.plan.plan import Plan
from minbert.store.kinds import KINDS
from minbert.store.node import Node, canonical, finished, seed_folders
from minbert.store.plans import described_in
from minbert.store.record import RECORDS, read_record

NEVER = "has never run"


class PreviousRuns:
    """The nodes under the results root that `plan` does not have, of earlier plans.

    Some are of kinds that this version does not have.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.damaged: list[str] = []
        """What is wrong with descriptions that count as never planned."""
        self._nodes: dict[str, list[Described]] = {}
        for path in sorted((plan.root / "store" / "spec").glob(f"*-{'[0-9a-f]' * 16}.json")):
            try:
                described = described_in(path)
            except UserError as error:
                self.damaged.append(str(error))
                continue
            if (described["kind"], described["key"]) not in plan.nodes:
                self._nodes.setdefault(_role(described), []).append(described)

    def _finished(self, described: Described) -> bool:
        kind = described["kind"]
        folder = self.plan.root / "store" / kind / described["key"]
        folders = seed_folders(folder).values() if KINDS[kind].seeded else [folder]
        return any(finished(kind, described["spec"], each) for each in folders)

    def closest(self, node: Node) -> Difference | None:
        """Return how `node` differs from the finished one that was what it is now.

        That has the same title, and for a training the same paper, variant and stage. Of several it
        is the one with the fewest other settings, then with the least other code and inputs.
        """
        new = node.describe()
        old = self._nodes.get(_role(new | about(self.plan, node)), ())
        found = (difference(each, new) for each in old if self._finished(each))
        return min(found, key=lambda d: (len(d.spec), len(d.code) + len(d.needs)), default=None)

    def reason(self, node: Node) -> str:
        """Return in a few words why a node is not done."""
        return str(self.closest(node) or NEVER)

    def explained(self, node: Node, shown: set[Node] | None = None) -> Iterator[str]:
        """Yield all that makes a node another one, and below that why its inputs are."""
        shown = set() if shown is None else shown
        found = self.closest(node)
        yield from found.lines() if found else [NEVER]
        for name in found.needs if found else ():
            need = node.needs.get(name)
            if need and need.node not in shown:
                shown.add(need.node)
                yield f"{title(self.plan, need.node)}, {need.node.kind} {need.node.key}:"
                yield from (f"  {line}" for line in self.explained(need.node, shown))


def _role(described: Described) -> str:
    """Return what a node is to people, whatever it is made from, with its kind."""
    return canonical([described["kind"], described.get("owner") or described.get("title")])


def warnings(plan: Plan, earlier: PreviousRuns) -> Iterator[str]:
    """Yield a line for each damaged description or record, misspelt variant and other version.

    Variants are those of published rows: a grid need not have all of a paper's. A version is
    another one if it is not the one here, and finished runs were made with it.
    """
    for fault in earlier.damaged:
        yield f"{fault}. It counts as never planned; delete it."
    for grid in plan.grids if not plan.config.only else ():
        for name in dict.fromkeys(row.variant for row in plan.published if row.paper == grid.paper):
            if name not in grid.variants and (near := did_you_mean(name, grid.variants)):
                yield (
                    f"{plan.config.published} has a row of '{name}', which the grid of "
                    f"{grid.paper} lacks.{near}"
                )
    here = versions(DEPENDENCIES)
    found: Counter[tuple[str, str]] = Counter()
    results = [node.folder(plan.root) for node in plan.nodes.values() if node.kind == "data"]
    results += [node.folder(plan.root, seed) for node, seed in plan.runs()]
    for path in (folder / name for folder in results for name in RECORDS):
        try:
            record = read_record(path)
        except FileNotFoundError:
            continue
        except UserError as error:
            yield f"{error}. Until then nothing is known of it."
            continue
        for name, version in record.get("environment", {}).get("packages", {}).items():
            plain = version.partition("+")[0]
            if name in here and plain != here[name]:
                found[name, plain] += 1
    for (name, version), runs in sorted(found.items()):
        yield (
            f"{runs} finished runs were made with {name} {version}; here it is {here[name]}. They "
            f"stay, unless `dependencies: [{name}]` in config.yaml makes them again."
        )
