"""`minbert gc`: what the store holds that the configuration no longer asks for.

Going back to an old value finds its results, so nothing goes by itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from minbert.common.errors import UserError
from minbert.common.files import read_json
from minbert.grid.node import SEEDED, description_path
from minbert.grid.plan import Plan


@dataclass(frozen=True)
class Leftover:
    """A folder of the store that nothing in the plan needs. `size` is in bytes."""

    path: Path
    kind: str
    what: str
    size: int


def leftovers(plan: Plan) -> list[Leftover]:
    """Return the folders of nodes, and of seeds, that no variant of `plan` needs, largest first.

    Everything in the plan is needed, finished or not; so are the records of what jobs measured
    (`tracking/`), which are in no node's folder.
    """
    store = plan.root / "store"
    found = []
    kinds = {path.name for path in store.glob("*") if path.is_dir()} - {"spec", "published"}
    for kind in sorted(kinds):
        for folder in sorted((store / kind).glob("*")):
            if (kind, folder.name) not in plan.nodes:
                found.append(_leftover(plan, folder, kind, folder.name))
            elif kind in SEEDED:
                wanted = {f"seed{seed}" for seed in plan.config.seeds}
                for part in sorted(folder.glob("seed*")):
                    if part.name not in wanted:
                        found.append(_leftover(plan, part, kind, folder.name))
    return sorted(found, key=lambda each: -each.size)


def _leftover(plan: Plan, path: Path, kind: str, key: str) -> Leftover:
    described = description_path(plan.root, kind, key)
    title = str(read_json(described).get("title", "")) if described.exists() else ""
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Leftover(path, kind, title, size)


def check_no_workflow(plan: Plan) -> None:
    """Raise `UserError` while a workflow runs, or is locked, where the plan's Snakefile is."""
    locks = plan.base / ".snakemake" / "locks"
    if locks.is_dir() and any(locks.iterdir()):
        raise UserError(
            f"a workflow runs in {plan.base.absolute()}, or was killed there ({locks} is not "
            "empty): wait for its end, or `snakemake --unlock`, then ask again"
        )


def delete(plan: Plan, found: list[Leftover]) -> None:
    """Delete leftovers, with their descriptions and work folders; refuse while a workflow runs."""
    check_no_workflow(plan)
    for each in found:
        shutil.rmtree(each.path)
        seed = each.path.name if each.path.name.startswith("seed") else None
        key = each.path.parent.name if seed else each.path.name
        work = plan.root / "work" / key
        shutil.rmtree(work / seed if seed else work, ignore_errors=True)
        if not seed:
            description_path(plan.root, each.kind, key).unlink(missing_ok=True)


def report(plan: Plan, *, remove: bool) -> Iterator[str]:
    """Yield a line a leftover and the total; delete them if `remove`."""
    found = leftovers(plan)
    for each in found:
        where = each.path.relative_to(plan.root)
        yield f"{shown_size(each.size):>9}  {where}  {each.what}".rstrip()
    total = shown_size(sum(each.size for each in found))
    if not found:
        yield f"nothing under {plan.root}/store that the configuration does not need"
    elif remove:
        delete(plan, found)
        yield f"{total} deleted, {len(found)} folders"
    else:
        yield f"{total} in {len(found)} folders; `minbert gc --delete` deletes them"


def shown_size(number: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
