"""`minbert adopt`: a refactoring changes keys and no result; carry the results to the new keys.

Whoever runs it declares that the code which differs computes the same. What is checked is all
else: settings, files and versions must be the same, and no existing file is overwritten.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, nearest
from minbert.base.files import write_json
from minbert.base.locks import in_use
from minbert.base.progress import counted
from minbert.commands.gc import shown_size
from minbert.plan.describe import title, write
from minbert.plan.difference import Described, difference
from minbert.plan.earlier import Earlier
from minbert.plan.pending import pending
from minbert.plan.plan import Plan
from minbert.store.kinds import KINDS
from minbert.store.node import Node
from minbert.store.record import ADOPTED, RECORDS, adoptions, sound

CARRIED = {kind.name for kind in KINDS.values() if not kind.shown} - {"fetch"}
"""The kinds that are carried over; scores, tables and figures name keys, and take seconds."""

LISTED = 4  # modules that are named for each result


@dataclass(frozen=True)
class Carry:
    """A finished result, `source`, that is to be carried to `target`; `modules` differ."""

    node: Node
    old: Described
    seed: int | None
    source: Path
    target: Path
    modules: list[str]


def adoptable(plan: Plan, modules: Sequence[str] = ()) -> tuple[list[Carry], list[str]]:
    """Return what can be carried over, needs first, and in words what cannot and why.

    With `modules`, only results whose code, and that of all they were made from, differs in no
    others.
    """
    earlier = Earlier(plan)
    alike: dict[str, list[Described]] = {}
    for at, described in earlier.described.items():
        if at not in plan.nodes and described["kind"] in CARRIED:
            alike.setdefault(earlier.meaning(described), []).append(described)
    carried: dict[Path, Carry] = {}
    refused: dict[Path, str] = {}
    for node in plan.nodes.values():
        seeds = plan.config.seeds if KINDS[node.kind].seeded else (None,)
        new = node.describe()
        candidates = [
            (old, earlier.changed_modules(old, new)) for old in alike.get(earlier.meaning(new), ())
        ]
        for old, differing in sorted(candidates, key=lambda each: len(each[1])):
            for seed, source in earlier.finished(old).items():
                target = node.folder(plan.root, seed) if seed in seeds else source
                if target == source or target in carried or node.done(plan.root, seed):
                    continue
                each = Carry(node, old, seed, source, target, sorted(differing))
                if fault := _fault(earlier, each, modules):
                    refused[target] = f"{title(plan, node, seed)}: {fault}"
                else:
                    carried[target] = each
    for node, seed in pending(plan):
        target = node.folder(plan.root, seed)
        old_stage = earlier.nearest(node) if node.kind == "train" else None
        other = difference(old_stage, node.describe()) if old_stage else None
        if other and other.spec and target not in carried:
            said = f"{other._replace(code={}, needs={})}: another experiment, which must be trained"
            refused.setdefault(target, f"{title(plan, node, seed)}: {said}")
    return list(carried.values()), [refused[at] for at in refused if at not in carried]


def _fault(earlier: Earlier, each: Carry, declared: Sequence[str]) -> str | None:
    """Return why a result cannot be carried over, if it cannot."""
    if declared and (undeclared := [name for name in each.modules if name not in declared]):
        return f"its code differs in {', '.join(undeclared)} too"
    if each.target.is_dir() and any(each.target.iterdir()):
        return f"{each.target} is not empty, and nothing is overwritten; delete it first"
    if other := sorted(earlier.made_otherwise(each.old, each.node.describe())):
        return f"what it was made from came out differently when made again: {', '.join(other)}"
    for path in (each.source / name for name in RECORDS):
        if path.exists() and not sound(path):
            return f"{path} is damaged"
    for path in each.source.iterdir():
        if not path.is_file():
            return f"{path} is no file, expected files alone; move it away"
    try:
        adoptions(each.source)
    except UserError as error:
        return str(error)
    wanted = each.node.spec.get("dependencies", {})
    return _other_version(earlier, each.old, each.seed, wanted) if wanted else None


def _other_version(
    earlier: Earlier, old: Described, seed: int | None, wanted: Mapping[str, str]
) -> str | None:
    """Return which version an earlier run, or one that it starts from, was made with instead."""
    record = earlier.finished(old).get(seed)
    run = (sound(record / "run.json") if record else None) or {}
    packages = run.get("environment", {}).get("packages", {})
    for name, version in wanted.items():
        found = packages.get(name, "an unknown version").partition("+")[0]
        if found != version:
            return f"made with {name} {found}, where `dependencies` asks for {version}"
    for need in old["needs"].values():
        if KINDS[need["kind"]].seeded:
            start = earlier.described[need["kind"], need["key"]]
            of_seed = seed if need["seed"] is None else need["seed"]
            if other := _other_version(earlier, start, of_seed, wanted):
                return other
    return None


def carry(plan: Plan, found: Sequence[Carry], reason: str) -> None:
    """Link results under their new keys, each folder whole or not at all, with its record.

    Raises `UserError` while a workflow or a job runs.
    """
    with in_use(plan.root, alone=True):
        write(plan)
        for each in found:
            _carry(each, reason)


def _carry(each: Carry, reason: str) -> None:
    temporary = each.target.with_name(f".{each.target.name}.{os.getpid()}.part")
    temporary.mkdir(parents=True)
    try:
        history = adoptions(each.source)
        for path in each.source.iterdir():
            if path.name == ADOPTED:
                continue
            try:  # Files here are replaced, never edited.
                os.link(path, temporary / path.name)
            except OSError:  # across disks
                shutil.copy2(path, temporary / path.name)
        write_json(temporary / ADOPTED, [*history, _record(each, reason)])
        if each.target.exists():
            each.target.rmdir()  # empty: a job that failed left it
        temporary.rename(each.target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _record(each: Carry, reason: str) -> dict[str, Any]:
    found = difference(each.old, each.node.describe())
    return {
        "kind": each.node.kind,
        "seed": each.seed,
        "from": each.old["key"],
        "to": each.node.key,
        "code": found.code,
        "modules": each.modules,
        "needs": found.needs,
        "reason": reason,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def report(plan: Plan, modules: Sequence[str], reason: str | None, *, apply: bool) -> Iterator[str]:
    """Yield a line per result that can be carried over, or cannot; carry them over if `apply`."""
    known = {name for each in Earlier(plan).described.values() for name in each["code"]}
    for module in modules:
        if module not in known:
            raise UserError(f"no result is of code in a module '{module}'.{nearest(module, known)}")
    found, refused = adoptable(plan, modules)
    if apply and found and not (reason or "").strip():
        raise UserError(
            "say by --reason why the change of code changes no result: it is kept beside each"
        )
    for each in found:
        old, new = (path.relative_to(plan.root / "store") for path in (each.source, each.target))
        name = title(plan, each.node, each.seed)
        differ = ", ".join(each.modules[:LISTED])
        if (more := len(each.modules) - LISTED) > 0:
            differ += f" and {more} more"
        size = shown_size(sum(path.stat().st_size for path in each.source.iterdir()))
        yield f"{size:>9}  {old} -> {new}  {name} ({differ})"
    for line in refused:
        yield f"not carried over: {line}"
    if not found:
        yield f"nothing under {plan.root}/store can be carried over to a new key"
    elif apply:
        carry(plan, found, str(reason))
        yield f"{counted(len(found), 'result')} carried over; {ADOPTED} beside each says so"
    else:
        command = " ".join(["minbert adopt", *modules, "--apply --reason TEXT", plan.options])
        yield (
            f"{counted(len(found), 'result')} can be carried over. If the modules compute the same "
            f"as before: `{command}`"
        )
