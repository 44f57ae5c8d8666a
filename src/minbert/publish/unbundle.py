"""`minbert unbundle`: takes the finished runs of a bundle into a results folder.

Everything is unpacked in the store, which may be a link to another disk, and checked first. Then
it is moved to its place, folder by folder. Nothing that is there is overwritten: a result that is
there with other content is a conflict. That a run was made at another time, or on another machine,
is none.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json
from minbert.base.locks import in_use
from minbert.data.identity import sha256
from minbert.data.parquet import read_file
from minbert.publish.archive import Manifest, Refused, unpack
from minbert.publish.checks import check_descriptions, check_nodes
from minbert.publish.packed import without_unread_scores
from minbert.spec.task import TASKS, use_tasks_of
from minbert.store.plans import brought, brought_path, write_description
from minbert.store.record import ADOPTED

_SHOWN = 5


@dataclass(frozen=True)
class Taken:
    """The runs of a bundle: new ones, those that were there already, and those left out."""

    new: int
    known: int
    left: int = 0


def unbundle(path: Path, root: Path, *, keep: bool = False) -> Taken:
    """Take the bundle at `path` into the results folder `root`.

    Raises `UserError` with the reason if anything in it is not as `bundle` writes it, if a result
    is there with other content, or while a workflow or a job runs; then nothing was taken in. With
    `keep`, runs that are there with other content stay, and those of the bundle are left out, with
    all that start from them.
    """
    refused = Refused(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; expected a bundle of `minbert bundle`")
    with in_use(root, alone=True):
        folder = root / "store" / ".unbundle"
        shutil.rmtree(folder, ignore_errors=True)  # of one that was killed
        folder.mkdir(parents=True)
        try:
            manifest = unpack(path, folder)
            store = folder / "store"
            _use_tasks(manifest.tasks, refused)
            described = check_descriptions(store, refused)
            nodes = check_nodes(store, described, refused)
            clashing = _clashing(store, root, refused, keep=keep)
            left = _with_followers(clashing, nodes, described)
            nodes = [node for node in nodes if node[2] not in left]
            runs = [name for kind, _, name in nodes if kind == "train"]
            known = sum((root / "store" / name / "run.json").exists() for name in runs)
            for each in described.values():
                write_description(root, each)
            _note_sources(root, manifest, nodes)
            for _, _, name in nodes:
                _move(store / name, root / "store" / name)
            return Taken(len(runs) - known, known, len(left))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _note_sources(root: Path, manifest: Manifest, nodes: list[tuple[str, str, str]]) -> None:
    """Keep for which sources the nodes of a bundle stand, beside what earlier bundles said."""
    noted = brought(root)
    for name in {f"{kind}-{key}" for kind, key, _ in nodes} & manifest.sources.keys():
        noted[name] = sorted({*noted.get(name, []), *manifest.sources[name]})
    if noted:
        write_json(brought_path(root), noted)


def _use_tasks(tasks: list[dict[str, Any]], refused: Refused) -> None:
    """Use the bundle's own tasks, by which its predictions are scored."""
    try:
        use_tasks_of({"tasks": tasks})
        hidden = sorted(TASKS.built_in.keys() & {task["name"] for task in tasks})
    except (TypeError, KeyError, ValueError, UserError) as error:
        raise refused(f"has tasks of its own that cannot be read ({error})") from None
    if hidden:
        raise refused(f"defines the task '{hidden[0]}', which is built in")


def _clashing(store: Path, root: Path, refused: Refused, *, keep: bool) -> set[str]:
    """Return the names of runs that are there with other content; refuse them unless to `keep`."""
    found = list(_conflicts(store, root))
    if refusing := [path for path in found if not keep or path.parts[0] != "train"]:
        listed = ", ".join(str(root / "store" / path) for path in refusing[:_SHOWN])
        more = f" and {len(refusing) - _SHOWN} more" if len(refusing) > _SHOWN else ""
        way_out = "" if keep else "; to keep the runs that exist here, add --keep"
        raise refused(
            "some of its files exist here with other content, and nothing is overwritten: "
            f"{listed}{more}. To take those of the bundle, delete the folders of these{way_out}"
        )
    return {str(path.parent) for path in found}


def _conflicts(store: Path, root: Path) -> Iterator[Path]:
    """Yield each file, as a path in the store, that contradicts the one there."""
    for path in sorted(p for p in store.rglob("*") if p.is_file()):
        name = path.relative_to(store)
        there = root / "store" / name
        about = name.parts[0] == "spec" or name.name in (ADOPTED, "run.json")
        if not about and there.exists() and not _equal(path, there):
            yield name


def _with_followers(
    runs: set[str], nodes: list[tuple[str, str, str]], described: dict[tuple[str, str], Any]
) -> set[str]:
    """Return `runs`, and those of the `nodes` that start from one of them, however far behind."""
    starts: dict[str, set[str]] = {}
    for kind, key, name in nodes:
        seed = name.rpartition("seed")[2]
        starts[name] = {
            f"train/{need['key']}/seed{seed if need['seed'] is None else need['seed']}"
            for need in described[kind, key]["needs"].values()
            if need["kind"] == "train"
        }
    found = set(runs)
    while more := {name for name in starts.keys() - found if starts[name] & found}:
        found |= more
    return found


def _equal(new: Path, old: Path) -> bool:
    """Whether two files hold the same, however and whenever they were written; one may be lean."""
    if sha256(new) == sha256(old):
        return True
    try:
        if new.suffix == ".json":
            return read_json(new) == read_json(old)
        if new.suffix == ".parquet":
            pair = [read_file(path) for path in (new, old)]
            if new.name == "history.parquet":
                pair = [table.drop_columns(["time"]) for table in pair]
            if new.name == "predictions.parquet" and not pair[0].equals(pair[1]):
                least = [without_unread_scores(table) for table in pair]
                pair = least if any(map(pa.Table.equals, pair, least)) else pair
            return bool(pair[0].equals(pair[1]))
    except (KeyError, UserError):
        pass  # The one that is there is damaged.
    return False


def _move(new: Path, old: Path) -> None:
    """Move a result to its place; of one that is there, only the files that it lacks."""
    old.parent.mkdir(parents=True, exist_ok=True)
    if not old.exists():
        new.rename(old)
        return
    for path in sorted(new.iterdir(), key=lambda path: path.name == "run.json"):
        if not (old / path.name).exists():
            path.rename(old / path.name)
