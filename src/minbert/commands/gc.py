"""`minbert gc`: what the store holds that the configuration no longer asks for.

Going back to an old value finds its results, so nothing goes by itself.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.locks import in_use
from minbert.plan.plan import Plan
from minbert.store.kinds import KINDS
from minbert.store.node import seed_folders
from minbert.store.plans import ONLY, described_in, description_path, held, plan_path

_KEY = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True)
class Leftover:
    """A folder of the store that nothing in the plan needs. `size` is in bytes."""

    path: Path
    kind: str
    what: str
    size: int


def leftovers(plan: Plan) -> list[Leftover]:
    """Return the folders of nodes, and of seeds, that no variant of `plan` needs, largest first."""
    found = []
    for folder in sorted((plan.root / "store").glob("*/*")):
        kind = folder.parent.name
        if kind not in KINDS or not _KEY.fullmatch(folder.name):
            continue  # not ours, or said of nodes
        unneeded = [folder]
        if (kind, folder.name) in plan.nodes:
            seeds = seed_folders(folder) if KINDS[kind].seeded else {}
            unneeded = [path for seed, path in seeds.items() if seed not in plan.config.seeds]
        for path in unneeded:
            described = description_path(plan.root, kind, folder.name)
            title = ""
            with suppress(FileNotFoundError, UserError):
                title = str(described_in(described).get("title", ""))
            files = [] if path.is_symlink() else path.rglob("*")
            size = sum(file.stat().st_size for file in files if file.is_file())
            found.append(Leftover(path, kind, title, size))
    return sorted(found, key=lambda each: -each.size)


def delete(plan: Plan, found: list[Leftover]) -> None:
    """Delete leftovers, with their descriptions and work folders; `UserError` if anything runs."""
    with in_use(plan.root, alone=True):
        for each in found:
            _remove(each.path)
            own = each.path.relative_to(plan.root / "store" / each.kind)  # KEY or KEY/SEED
            shutil.rmtree(plan.root / "work" / own, ignore_errors=True)
            if len(own.parts) == 1:
                _remove(description_path(plan.root, each.kind, own.name))
        folders = (plan.root, plan.root / ONLY)
        published = {name for each in folders for name in held(each).get("plans", {}).values()}
        for path in plan_path(plan.root, "").parent.glob("*.json"):
            if _KEY.fullmatch(path.stem) and path.stem not in published:
                _remove(path)


def _remove(path: Path) -> None:
    """Delete a folder, a file, or a link but not its target; somebody else may have done so."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def report(plan: Plan, *, remove: bool) -> Iterator[str]:
    """Yield a line per leftover and the total; delete them if `remove`."""
    if plan.config.only:
        raise UserError("config: 'only' names a part, and gc looks at whole grids; leave it out")
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
