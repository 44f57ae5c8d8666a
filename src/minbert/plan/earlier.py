"""Why a job would run: what differs from the nodes planned before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from minbert.base.environment import DEPENDENCIES, versions
from minbert.base.errors import UserError, nearest
from minbert.plan.describe import about, title
from minbert.plan.difference import Described, difference
from minbert.plan.pending import Pending
from minbert.plan.plan import Plan
from minbert.spec.stage import StageSpec
from minbert.store.kinds import KINDS
from minbert.store.node import Node, canonical, finished, seed_folders
from minbert.store.plans import described_in
from minbert.store.record import RECORDS, read_record

_NAME = re.compile(rf"({'|'.join(KINDS)})-[0-9a-f]{{16}}")


def reason(earlier: Earlier, node: Node) -> str:
    """Return why a node is not done, as what differs from the nearest finished one, or ""."""
    old = earlier.nearest(node)
    return str(difference(old, node.describe())) if old else ""


def other_jobs(plan: Plan, jobs: Pending, earlier: Earlier) -> Iterator[tuple[str, ...]]:
    """Yield (kind, what, key, why) of the jobs to run besides training, by kind."""
    kinds = [node.kind for node in plan.nodes.values()]
    others = dict.fromkeys(node for node, _ in jobs if node.kind != "train")
    for node in sorted(others, key=lambda node: kinds.index(node.kind)):
        why = jobs[node, None] or reason(earlier, node) or "has never run"
        yield node.kind, title(plan, node), node.key, why
    if not plan.mark.exists():
        yield "publish", "-", plan.stamp, "the plain names do not hold what is asked for"


def remarks(plan: Plan, earlier: Earlier) -> Iterator[str]:
    """Yield a line for each damaged record or description, other version, and misspelt variant.

    Variants are those of published rows: a grid need not have all of a paper's. A version is
    another one if it is not the one here, and finished runs were made with it.
    """
    for fault in earlier.damaged:
        yield f"{fault}. It counts as never planned; delete it."
    whole = [] if plan.config.only else plan.grids
    known = {grid.paper: grid.variants for grid in whole}
    file = plan.config.published
    for paper, name in dict.fromkeys((row.paper, row.variant) for row in plan.published):
        if name not in known.get(paper, [name]) and (near := nearest(name, known[paper])):
            yield f"{file} has a row of '{name}', which the grid of {paper} lacks.{near}"
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


class Earlier:
    """The descriptions of all nodes that were ever planned, those of `plan` among them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.damaged: list[str] = []
        """What is wrong with descriptions that count as never planned."""
        self.described: dict[tuple[str, str], Described] = {}
        """Every description by kind and key."""
        for path in sorted((plan.root / "store" / "spec").glob("*.json")):
            if not _NAME.fullmatch(path.stem):
                continue  # not ours
            try:
                described = described_in(path)
                self.described[described["kind"], described["key"]] = described
            except UserError as error:
                self.damaged.append(str(error))
        self.described |= {at: node.describe() for at, node in plan.nodes.items()}

    def finished(self, described: Described) -> dict[int | None, Path]:
        """Return {seed: folder} of a node's finished results; a kind without seeds has None."""
        folder = self.plan.root / "store" / described["kind"] / described["key"]
        folders: Mapping[int, Path] | Mapping[None, Path] = {None: folder}
        if KINDS[described["kind"]].seeded:
            folders = seed_folders(folder)
        return {
            seed: path
            for seed, path in folders.items()
            if finished(described["kind"], described["spec"], path)
        }

    def nearest(self, node: Node) -> Described | None:
        """Return the description of that finished node, of those that were what `node` is now,
        which differs least: first in settings, then in code and inputs; the latest of several.

        So an edit that was undone is no difference.
        A training job is matched by paper, variant and stage, cached features by their settings,
        scores by their papers, a figure by paper and name, everything else by its title.
        """
        new = node.describe()
        candidates = []
        for described in self._others.get(_role(new | about(self.plan, node)), ()):
            if runs := self.finished(described):
                newest = max(map(_made, runs.values()))
                spec, code, needs = difference(described, new)
                order = len(spec), len(code) + len(needs), -newest, described["key"]
                candidates.append((order, described))
        return min(candidates, key=lambda each: each[0])[1] if candidates else None

    @cached_property
    def _others(self) -> dict[str, list[Described]]:
        """The nodes that are not in the plan, by role."""
        found: dict[str, list[Described]] = {}
        for at, described in self.described.items():
            if at not in self.plan.nodes:
                found.setdefault(_role(described), []).append(described)
        return found


def ended(folder: Path) -> float:
    """Return when a run's last value was measured, in unix seconds, wherever it was copied to."""
    from minbert.data.parquet import read_file  # pyarrow: a plan of nothing finished needs none

    return max(read_file(folder / "history.parquet", ["time"])["time"].to_pylist(), default=0.0)


def _made(folder: Path) -> float:
    """Return when a result was made; without a history, when its folder last changed."""
    with suppress(UserError, FileNotFoundError):
        return ended(folder)
    return folder.stat().st_mtime


def _role(described: Described) -> str:
    """Return what a node is to people, whatever it is made from, with its kind."""
    spec, kind = described["spec"], described["kind"]
    role = described.get("owner") or described.get("title")
    if kind == "features":
        role = _settings(described)
    elif kind == "scores":
        role = sorted({str(run.get("paper")) for run in spec.get("runs", ())})
    elif kind == "figure":
        role = spec.get("paper"), spec.get("name")
    return canonical([kind, role])


def in_full(earlier: Earlier, old: Described, new: Node) -> Iterator[str]:
    """Yield all that makes `new` another node than `old`, and below that why its needs are."""
    shown = {(new.kind, new.key)}

    def lines(old: Described, new: Node, indent: str) -> Iterator[str]:
        found = difference(old, new.describe())
        yield from (f"{indent}{line}" for line in found.in_full())
        for name, need in new.needs.items():
            was, at = old["needs"].get(name), (need.node.kind, need.node.key)
            if was and name in found.needs and at not in shown:
                shown.add(at)
                if before := earlier.described.get((was["kind"], was["key"])):
                    yield f"{indent}{title(earlier.plan, need.node)}, {need.node.kind} {at[1]}:"
                    yield from lines(before, need.node, f"{indent}  ")

    return lines(old, new, "")


def _settings(described: Described) -> Any:
    """Return a node's settings: its spec with defaults filled in, and without what follows from it.

    Versions that are asked for are left out too.
    """
    left_out = {"dependencies", "derived"}
    spec = {name: value for name, value in described["spec"].items() if name not in left_out}
    if described["kind"] == "train":
        try:
            stage = StageSpec.model_validate(spec["stage"])
        except ValidationError:
            return spec  # of a package that knew other settings
        spec["stage"] = stage.model_dump(mode="json")
    return spec
