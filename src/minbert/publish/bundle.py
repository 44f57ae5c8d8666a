"""`minbert bundle`: the finished runs of a results folder as one file, for other people's folders.

It holds what tables, figures, claims and the report are made from: descriptions, histories,
predictions, records of runs, reports on data, dev and test rows without texts. No texts, and
weights only if they are asked for.
"""

import tempfile
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
from minbert.publish.packed import Rows, pack, without_unread_scores, write_small
from minbert.spec.architecture import WEIGHTS
from minbert.spec.task import use_tasks_of
from minbert.store.kinds import KINDS
from minbert.store.node import finished, needs_of, seed_folders
from minbert.store.plans import (
    VARIANT_COLUMNS,
    VARIANTS,
    description_path,
    published_plans,
    read_description,
    read_plan,
    records,
    shown_of,
    stage_rows,
)
from minbert.store.record import ADOPTED, adoptions

Described = dict[str, Any]
At = tuple[str, str]


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
    if not (root / "store").is_dir():
        raise _nothing(root)
    with results_lock(root):
        newest = next(records(root), None)
        if newest is None:
            raise _nothing(root)
        plans = [
            read_plan(root, plan) for plan in dict.fromkeys([newest[0], *published_plans(root)])
        ]
        own = (task for plan in reversed(plans) for task in plan.get("tasks", []))
        tasks = list(
            {task["name"]: task for task in own}.values()
        )  # of one that changed, the newest
        use_tasks_of({"tasks": tasks})
        described = _described(root, plans)
        elsewhere = {name for path in without for name in names_in(path)}
        results = list(_results(root, described, weights, seeds, elsewhere))
        runs = sum(path.name == "run.json" for path in results)
        if not runs:
            of = f" with seed {' or '.join(map(str, seeds))}" if seeds else ""
            new = f" that is not in {' or '.join(map(str, without))}" if without else ""
            raise UserError(f"{root} has no finished run{of} of its newest plan{new} to bundle")
        files = _pages(root, plans)
        paths = [description_path(root, *at) for at in described] + results
        files |= {path.relative_to(root / "store").as_posix(): path for path in paths}
        with whole(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            writer = Writer(archive)
            _write(files, Rows([root / "store"], described), writer, lean)
            writer.end(package=VERSION, tasks=tasks, sources=_sources(described, plans))
    return Bundled(runs, out.stat().st_size)


def _nothing(root: Path) -> UserError:
    return UserError(
        f"no workflow was started under {root}, so there is nothing to bundle; give its results "
        "by --results"
    )


def _described(root: Path, plans: Sequence[Described]) -> dict[At, Described]:
    """Return the descriptions of what the plans' results are, and of all they are made from."""
    found: dict[At, Described] = {}

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


def _sources(described: Collection[At], plans: Sequence[Described]) -> dict[str, list[str]]:
    """Return what the plans call the source of each node: {KIND-KEY: names}."""
    found: dict[str, list[str]] = {}
    for name in ("-".join(at) for at in described):
        extras = [plan["jobs"][name]["extra"] for plan in plans if name in plan["jobs"]]
        if names := {extra["source"] for extra in extras if extra.get("source")}:
            found[name] = sorted(names)
    return found


def _results(
    root: Path,
    described: Mapping[At, Described],
    weights: bool,
    seeds: Collection[int],
    elsewhere: Collection[str],
) -> Iterator[Path]:
    """Yield the files of all finished results that the bundle has."""
    for (kind, key), of in described.items():
        folder = root / "store" / kind / key
        every = seed_folders(folder) if KINDS[kind].seeded else {None: folder}
        for seed, path in every.items() if kind in FILES else ():
            unwanted = seeds and seed is not None and seed not in seeds
            if unwanted or not finished(kind, of["spec"], path):
                continue
            if kind == "train" and not _names(path).isdisjoint(elsewhere):
                continue
            files = [path / name for name in (*FILES[kind], ADOPTED) if weights or name != WEIGHTS]
            for file in filter(Path.is_file, files):
                if file.relative_to(root / "store").as_posix() not in elsewhere:
                    yield file


def _pages(root: Path, plans: Sequence[Described]) -> dict[str, Path | str]:
    """Return what people read, by name: the configuration, the list of variants, the command."""
    report = read_description(root, *shown_of(plans[0])[-1][1:])
    rows = dict.fromkeys(tuple(row) for plan in plans for row in plan["variants"])
    found: dict[str, Path | str] = {
        "config.json": json_text(report["spec"]["config"]),
        VARIANTS: csv_text(VARIANT_COLUMNS, stage_rows(rows), "\t"),
    }
    command = root / "logs" / "command.txt"
    return found | ({command.name: command} if command.is_file() else {})


def _names(folder: Path) -> set[str]:
    """Return what a run's record is called in bundles: by its key, and by those it had before."""
    keys = [folder.parent.name, *(step["from"] for step in adoptions(folder))]
    return {f"train/{key}/{folder.name}/run.json" for key in keys}


def _write(files: Mapping[str, Path | str], rows: Rows, writer: Writer, lean: bool) -> None:
    """Add every file but the list, by name; the tables of runs as small as they can be."""
    with tempfile.TemporaryDirectory() as temporary:
        small = Path(temporary) / "small.parquet"
        for name, source in sorted(files.items()):
            if not (name.startswith("train/") and name.endswith(".parquet")):
                writer.add(name, source)
                continue
            table = read_file(str(source))
            if name.endswith("/predictions.parquet"):
                table = without_unread_scores(table) if lean else table
                table = pack(table, rows.of(name.split("/")[1]))
            write_small(table, small)
            writer.add(name, small)
