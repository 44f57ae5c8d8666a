"""`minbert gc`: what the store holds that the configuration no longer asks for.

Going back to an old value finds its results, so nothing goes by itself.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.base.locks import in_use
from minbert.plan.plan import Plan
from minbert.store.kinds import KINDS
from minbert.store.plans import description_path, held, plan_path


@dataclass(frozen=True)
class Leftover:
    """A folder of the store that nothing in the plan needs. `size` is in bytes."""

    path: Path
    kind: str
    what: str
    size: int


def leftovers(plan: Plan) -> list[Leftover]:
    """Return the folders of nodes, and of seeds, that no variant of `plan` needs, largest first."""
    wanted = {f"seed{seed}" for seed in plan.config.seeds}
    found = []
    for folder in sorted((plan.root / "store").glob("*/*")):
        kind = folder.parent.name
        if kind in {"spec", "plans", "published"}:
            continue
        unneeded = [folder]
        if (kind, folder.name) in plan.nodes:
            seeds = folder.glob("seed*") if KINDS[kind].seeded else ()
            unneeded = [part for part in sorted(seeds) if part.name not in wanted]
        for path in unneeded:
            described = description_path(plan.root, kind, folder.name)
            title = ""
            with suppress(FileNotFoundError, UserError):
                title = str(read_json(described).get("title", ""))
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            found.append(Leftover(path, kind, title, size))
    return sorted(found, key=lambda each: -each.size)


def delete(plan: Plan, found: list[Leftover]) -> None:
    """Delete leftovers, with their descriptions and work folders; `UserError` if anything runs."""
    with in_use(plan.root, alone=True):
        for each in found:
            if each.path.exists():  # Somebody else may have deleted it before this waited.
                shutil.rmtree(each.path)
            own = each.path.relative_to(plan.root / "store" / each.kind)  # KEY or KEY/SEED
            shutil.rmtree(plan.root / "work" / own, ignore_errors=True)
            if len(own.parts) == 1:
                description_path(plan.root, each.kind, own.name).unlink(missing_ok=True)
        published = held(plan.root).get("plans", {}).values()
        for path in plan_path(plan.root, "").parent.glob("*.json"):
            if path.stem not in published:
                path.unlink()


def report(plan: Plan, *, remove: bool) -> Iterator[str]:
    """Yield a line per leftover and the total; delete them if `remove`."""
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
        command = f"minbert gc --delete {plan.options}".rstrip()
        yield f"{total} in {len(found)} folders; `{command}` deletes them"


def shown_size(number: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
