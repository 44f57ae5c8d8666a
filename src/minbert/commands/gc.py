"""`minbert gc`: what the store holds that the configuration no longer asks for.

Going back to an old value finds its results, so nothing goes by itself.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from minbert.base.errors import UserError
from minbert.base.locks import check_results, remove_half_written, results_lock
from minbert.base.progress import counted, shown_size
from minbert.plan.plan import Plan
from minbert.store.node import KINDS, seed_folders
from minbert.store.plans import (
    description_path,
    plan_path,
    published_plans,
    read_description,
    records,
)


class Leftover(NamedTuple):
    """What nothing in the plan needs of a node or a seed: a folder of `size` bytes, and a title."""

    size: int
    path: Path
    title: str


def leftovers(plan: Plan) -> list[Leftover]:
    """Return what no variant of `plan` needs, largest first: results, and states of trainings."""
    found = []
    for place, kind in [*((f"store/{kind}", kind) for kind in KINDS), ("work", "train")]:
        for folder in (plan.root / place).glob("[0-9a-f]" * 16):
            unneeded = [folder]
            if node := plan.nodes.get((kind, folder.name)):
                seeds = seed_folders(folder) if kind == "train" else {}
                unneeded = [
                    path
                    for seed, path in seeds.items()
                    # A training that was killed as it ended leaves its state or best weights.
                    if seed not in plan.config.seeds
                    or (place == "work" and node.done(plan.root, seed) and any(path.glob("*-*")))
                ]
            title = ""
            with suppress(UserError):
                title = read_description(plan.root, kind, folder.name).get("title", "")
            for path in unneeded:
                size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
                found.append(Leftover(size, path, title))
    return sorted(found, reverse=True)


def remove(plan: Plan, found: Iterable[Leftover]) -> None:
    """Delete leftovers, and what describes other nodes and plans; `UserError` if anything runs.

    Files that killed processes were writing go, too. The newest plan stays, which may not have been
    published yet.
    """
    with results_lock(plan.root, alone=True):
        for _, path, _ in found:
            if path.is_symlink():  # and not its target
                path.unlink()
            elif path.exists():
                shutil.rmtree(path)
        remove_half_written(plan.root / "store")
        newest = [name for name, _ in records(plan.root)][:1]
        asked = {f"{kind}-{key}" for kind, key in plan.nodes}
        asked |= {*published_plans(plan.root), *newest}
        for described in (description_path(plan.root, "", ""), plan_path(plan.root, "")):
            for path in described.parent.glob("*.json"):
                if path.stem not in asked:
                    path.unlink()


def report(plan: Plan, delete: bool) -> Iterator[str]:
    """Yield a line per leftover and the total; delete them if `delete`."""
    if plan.config.only:
        raise UserError("config: 'only' names a part, and gc looks at whole grids; leave it out")
    check_results(plan.root)
    plan.check_names()
    plan.check_newest()
    found = leftovers(plan)
    for size, path, title in found:
        yield f"{shown_size(size):>9}  {path.relative_to(plan.root)}  {title}".rstrip()
    if delete:
        remove(plan, found)
    if not found:
        yield f"nothing to delete: the configuration needs all that is in {plan.root}"
        return
    total = f"{shown_size(sum(each.size for each in found))} in {counted(len(found), 'folder')}"
    command = f"minbert gc --delete {plan.options}".rstrip()
    yield f"{total}; deleted" if delete else f"{total}; `{command}` deletes them"
