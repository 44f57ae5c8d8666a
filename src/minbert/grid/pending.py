"""What would run: the jobs whose files are missing, and those whose files these need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from minbert.common.environment import DEPENDENCIES, versions
from minbert.common.files import read_json
from minbert.grid.earlier import Earlier, difference
from minbert.grid.node import Node
from minbert.grid.plan import Plan

Pending = dict[tuple[Node, int | None], str]


def pending(plan: Plan) -> Pending:
    """Return {(node, seed): ""} of all jobs that would run, what is trained first.

    A job whose files only finished jobs need does not run. One whose weights were let go runs
    again where a job needs them; its text says so.
    """
    found: Pending = {}
    shown = [plan.index, *plan.figures.values(), plan.report]
    shown += [plan.claims] if plan.claims else []
    for made in plan.outputs.values():
        shown += [made.scores, made.table]
    waiting: list[tuple[Node, int | None, str]] = [
        *((node, seed, "") for node, seed in plan.runs() if not node.done(plan.root, seed)),
        *((node, None, "") for node in shown if not node.done(plan.root)),
    ]
    while waiting:
        node, seed, why = waiting.pop(0)
        if (node, seed) in found:
            continue
        found[node, seed] = why
        for need in node.needs.values():
            its_seed = need.of(seed)
            if not need.path(plan.root, its_seed).exists():
                again = need.node.done(plan.root, its_seed)
                why = f"{need.file} was let go and is needed again" if again else ""
                waiting.append((plan.node(need.node.kind, need.node.key), its_seed, why))
    return found


def reason(earlier: Earlier, node: Node) -> str:
    """Return why a node is not done, as what differs from the latest finished one, or ""."""
    old = earlier.latest(node)
    return str(difference(old, node)) if old else ""


def other_jobs(plan: Plan, jobs: Pending, earlier: Earlier) -> Iterator[tuple[str, ...]]:
    """Yield (kind, what, key, why) of the jobs to run that train nothing, in order of kind."""
    kinds = [node.kind for node in plan.nodes.values()]
    for node in sorted(
        {n for n, _ in jobs if n.kind != "train"}, key=lambda n: kinds.index(n.kind)
    ):
        why = jobs[node, None] or reason(earlier, node) or "has never run"
        yield node.kind, plan.title(node), node.key, why
    if not plan.mark.exists():
        yield "publish", "-", plan.stamp, "the plain names do not hold what is asked for"


def other_versions(plan: Plan) -> Iterator[str]:
    """Yield a line for each version, other than the one here, that finished runs were made with."""
    here = versions(DEPENDENCIES)
    found: Counter[tuple[str, str]] = Counter()
    for node, seed in plan.runs():
        record = node.folder(plan.root, seed) / "run.json"
        if not record.exists():
            continue
        packages = read_json(record).get("environment", {}).get("packages", {})
        for name, version in packages.items():
            plain = version.partition("+")[0]
            if name in here and plain != here[name]:
                found[name, plain] += 1
    for (name, version), runs in sorted(found.items()):
        yield (
            f"{runs} finished runs were made with {name} {version}; here it is {here[name]}. They "
            f"stay, unless `dependencies: [{name}]` in config.yaml asks for them anew."
        )
