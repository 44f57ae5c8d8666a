"""`minbert bundle`: the finished runs of a results folder as one file, for other people's folders.

It holds what tables, figures, claims and the report are made from: descriptions, histories,
predictions, records of runs, reports on data, dev and test rows without texts. No texts, and
weights only if they are asked for.
"""

import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.base.locks import results_lock
from minbert.base.version import VERSION
from minbert.data.parquet import read_file
from minbert.evaluate.text import csv_text
from minbert.publish.archive import FILES, Writer, json_text, names_in
from minbert.publish.packed import Rows, pack, small_bytes, without_unread_scores
from minbert.spec.architecture import WEIGHTS
from minbert.spec.task import use_tasks_of
from minbert.store.node import finished, needs_of, seed_folders
from minbert.store.plans import (
    ADOPTED,
    VARIANT_COLUMNS,
    VARIANTS,
    adoptions,
    published_plans,
    read_description,
    read_plan,
    records,
    stage_rows,
)

Described = Mapping[tuple[str, str], dict[str, Any]]
"""Descriptions by kind and key."""


@dataclass(frozen=True)
class Bundled:
    """What a bundle came to: how many runs, and its size."""

    runs: int
    bytes: int


def bundle(
    root: Path,
    out: Path,
    *,
    weights: bool = False,
    lean: bool = False,
    seeds: Collection[int] = (),
    without: Collection[Path] = (),
) -> Bundled:
    """Write what the plans of `root` ask for, and what is finished of it, to the zip `out`.

    These are the newest plan and those that the plain names are of, of parts too. With `lean`,
    predictions have no probabilities but those that figures read; with `seeds`, only their runs are
    in it. What the bundles `without` have is left out: runs, and the ids and labels of data, so
    that those are to be imported first. The same results give the same bytes. Raises `UserError` if
    no workflow was started there, or nothing is finished.
    """
    newest = next(records(root), None)
    if newest is None:
        raise UserError(
            f"no workflow was started under {root}, so there is nothing to bundle; give its "
            "results by --results"
        )
    with results_lock(root):
        names = dict.fromkeys([newest[0], *published_plans(root)])
        plans = [read_plan(root, name) for name in names]
        own = [task for plan in reversed(plans) for task in plan.get("tasks", [])]
        tasks = [*{task["name"]: task for task in own}.values()]  # of one that changed, the newest
        use_tasks_of({"tasks": tasks})
        described = _described(root, plans)
        elsewhere = {name for path in without for name in names_in(path)}
        found = {*_results(root / "store", described, seeds, elsewhere)} - elsewhere
        files = [name for name in found if weights or not name.endswith(f"/{WEIGHTS}")]
        if not (runs := sum(name.endswith("/run.json") for name in files)):
            raise UserError(
                f"{root} has no finished run to bundle that has one of the seeds asked for and is "
                "in no bundle of --without"
            )
        files += [f"spec/{'-'.join(at)}.json" for at in described]
        with whole(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            writer = Writer(archive)
            for name, page in _pages(root, plans).items():
                writer.add(name, page)
            _write(sorted(files), Rows([root / "store"], described), root, writer, lean)
            writer.end(package=VERSION, tasks=tasks)
    return Bundled(runs, out.stat().st_size)


def _described(root: Path, plans: Sequence[Mapping[str, Any]]) -> Described:
    """Return the descriptions of what the plans' results are, and of all they are made from."""
    found: dict[tuple[str, str], dict[str, Any]] = {}

    def add(kind: str, key: str) -> None:
        if (kind, key) not in found:
            found[kind, key] = read_description(root, kind, key)
            for need in needs_of(found[kind, key]):
                add(*need)

    for name in {name for plan in plans for name in plan["jobs"]}:
        kind, _, key = name.partition("-")
        if kind in FILES and (root / "store" / kind / key).exists():
            add(kind, key)
    return dict(sorted(found.items()))


def _results(
    store: Path, described: Described, seeds: Collection[int], elsewhere: Collection[str]
) -> Iterator[str]:
    """Yield the names of the files of all finished results, of runs those that are asked for."""
    for kind, key in described:
        every = (
            seed_folders(store / kind / key).values() if kind == "train" else [store / kind / key]
        )
        for folder in every if kind in FILES else ():
            if not finished(kind, folder):
                continue
            if kind == "train" and not _is_wanted(folder, seeds, elsewhere):
                continue
            paths = (folder / name for name in (*FILES[kind], ADOPTED))
            yield from (path.relative_to(store).as_posix() for path in paths if path.is_file())


def _is_wanted(folder: Path, seeds: Collection[int], elsewhere: Collection[str]) -> bool:
    """Whether a run has one of the seeds, and is not elsewhere by its key or those before it."""
    keys = [folder.parent.name, *(step["from"] for step in adoptions(folder))]
    known = {f"train/{key}/{folder.name}/run.json" for key in keys}.intersection(elsewhere)
    return not known and (not seeds or folder.name in {f"seed{seed}" for seed in seeds})


def _pages(root: Path, plans: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what people read, by name: the command, the configuration, the list of variants."""
    config = read_description(root, *plans[0]["shown"][-1][1:])["spec"]["config"]
    checksums = {path: of for plan in plans for path, of in plan.get("checksums", {}).items()}
    rows = dict.fromkeys(tuple(row) for plan in plans for row in plan["variants"])
    command = root / "logs" / "command.txt"
    return {
        command.name: command.read_text(encoding="utf-8") if command.is_file() else "",
        "config.json": json_text({**config, "checksums": checksums}),
        VARIANTS: csv_text(VARIANT_COLUMNS, stage_rows(rows), "\t"),
    }


def _write(names: Sequence[str], rows: Rows, root: Path, writer: Writer, lean: bool) -> None:
    """Add files of the store by name; the tables of runs as small as they can be."""
    for name in names:
        path = root / "store" / name
        if name.startswith("train/") and name.endswith(".parquet"):
            table = read_file(path)
            if path.name == "predictions.parquet":
                table = without_unread_scores(table) if lean else table
                table = pack(table, rows.of(name.split("/")[1]))
            writer.add(name, small_bytes(table))
        else:
            writer.add(name, path.read_bytes())
