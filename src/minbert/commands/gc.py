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
from minbert.base.locks import remove_half_written, results_lock
from minbert.base.progress import counted, shown_size
from minbert.plan.plan import Plan
from minbert.store.node import KINDS, seed_folders
from minbert.store.plans import described_in, description_path, plan_path, published_plans

_KEY = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True)
class Leftover:
    """What nothing in the plan needs of a node or a seed: a folder of `size` bytes, and a title."""

    path: Path
    title: str
    size: int


def leftovers(plan: Plan) -> list[Leftover]:
    """Return what no variant of `plan` needs, largest first: results, and states of trainings."""
    places = [(kind, plan.root / "store" / kind) for kind in KINDS]
    found = []
    for kind, place in [*places, ("train", plan.root / "work")]:
        for folder in filter(_is_ours, place.glob("*")):
            unneeded = [folder]
            if node := plan.nodes.get((kind, folder.name)):
                seeds = seed_folders(folder) if kind == "train" else {}
                unneeded = [path for seed, path in seeds.items() if seed not in plan.config.seeds]
                if place.name == "work":
                    done = (path for seed, path in seeds.items() if node.done(plan.root, seed))
                    unneeded += filter(_holds_a_state, {*done} - {*unneeded})
            title = ""
            with suppress(UserError):
                described = described_in(description_path(plan.root, kind, folder.name))
                title = str(described.get("title", ""))
            for path in unneeded:
                files = () if path.is_symlink() else path.rglob("*")
                size = sum(file.stat().st_size for file in files if file.is_file())
                found.append(Leftover(path, title, size))
    return sorted(found, key=lambda each: (-each.size, each.path))


def _holds_a_state(work: Path) -> bool:
    """Whether a training that was killed as it ended left more than its lock."""
    return any(path.name != "lock" for path in work.iterdir())


def _is_ours(path: Path) -> bool:
    return bool(_KEY.fullmatch(path.name))


def delete(plan: Plan, found: list[Leftover]) -> None:
    """Delete leftovers, and what describes other nodes and plans; `UserError` if anything runs.

    What killed processes were writing goes, too.
    """
    with results_lock(plan.root, alone=True):
        for each in found:
            if each.path.is_symlink():  # and not its target
                each.path.unlink()
            elif each.path.exists():
                shutil.rmtree(each.path)
        remove_half_written(plan.root / "store")
        for path in description_path(plan.root, "", "").parent.glob("*-*.json"):
            kind, _, key = path.stem.partition("-")
            if _KEY.fullmatch(key) and (kind, key) not in plan.nodes:
                path.unlink()
        published = published_plans(plan.root)
        for path in plan_path(plan.root, "").parent.glob("*.json"):
            if _KEY.fullmatch(path.stem) and path.stem not in published:
                path.unlink()


def report(plan: Plan, *, remove: bool) -> Iterator[str]:
    """Yield a line per leftover and the total; delete them if `remove`."""
    if plan.config.only:
        raise UserError("config: 'only' names a part, and gc looks at whole grids; leave it out")
    found = leftovers(plan)
    for each in found:
        where = each.path.relative_to(plan.root)
        yield f"{shown_size(each.size):>9}  {where}  {each.title}".rstrip()
    total, folders = shown_size(sum(each.size for each in found)), counted(len(found), "folder")
    if remove:
        delete(plan, found)
    if not found:
        yield f"nothing under {plan.root}/store that the configuration does not need"
    elif remove:
        yield f"{total} deleted, {folders}"
    else:
        command = f"minbert gc --delete {plan.options}".rstrip()
        yield f"{total} in {folders}; `{command}` deletes them"
