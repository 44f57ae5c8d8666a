"""`minbert bundle`: the finished runs of a results folder as one file, for other people's folders.

It holds what tables, figures, claims and the report are made from: descriptions, histories,
predictions, records of runs, reports on data, dev and test rows without texts. No texts, and
weights only if they are asked for.
"""

import tempfile
import zipfile
from collections.abc import Collection, Iterator
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


@dataclass(frozen=True)
class Bundled:
    """What a bundle came to: how many runs, and its size."""

    runs: int
    bytes: int


@dataclass(frozen=True)
class _Content:
    """What plans ask for: descriptions by kind and key, and the plans' records, newest first.

    `sources` are what the plans call that of each node: {KIND-KEY: names}.
    """

    records: list[dict[str, Any]]
    described: dict[tuple[str, str], Described]
    sources: dict[str, list[str]]

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """The tasks that are not built in; of one that changed, the newest."""
        own = (task for record in reversed(self.records) for task in record.get("tasks", []))
        return list({task["name"]: task for task in own}.values())


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
    in it, and none that the bundles `without` have. The same results give the same bytes. Raises
    `UserError` if no workflow was started there, or nothing is finished.
    """
    if not (root / "store").is_dir():
        raise _nothing(root)
    with results_lock(root):
        content = _content(root)
        use_tasks_of({"tasks": content.tasks})
        elsewhere = frozenset(name for path in without for name in names_in(path))
        files = _stored(root, content, weights, seeds, elsewhere)
        runs = sum(name.endswith("/run.json") for name in files)
        if not runs:
            of = f" with seed {' or '.join(map(str, seeds))}" if seeds else ""
            new = f" that is not in {' or '.join(map(str, without))}" if without else ""
            raise UserError(f"{root} has no finished run{of} of its newest plan{new} to bundle")
        with whole(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            writer = Writer(archive)
            _write(root, content, files, writer, lean)
            writer.end(package=VERSION, tasks=content.tasks, sources=content.sources)
    return Bundled(runs, out.stat().st_size)


def _nothing(root: Path) -> UserError:
    return UserError(
        f"no workflow was started under {root}, so there is nothing to bundle; give its results "
        "by --results"
    )


def _content(root: Path) -> _Content:
    newest = next(records(root), None)
    if newest is None:
        raise _nothing(root)
    found: dict[tuple[str, str], Described] = {}
    plans = dict.fromkeys([newest[0], *published_plans(root)])
    every = [read_plan(root, plan) for plan in plans]
    for record in every:
        for name in record["jobs"]:
            kind, _, key = name.partition("-")
            if (kind, key) in found or KINDS[kind].shown or kind == "fetch":
                continue
            places = (description_path(root, kind, key), root / "store" / kind / key)
            if any(place.exists() for place in places):  # `gc` deletes both
                found[kind, key] = read_description(root, kind, key)
    # What needs a deleted node was never made: else `gc` had deleted it, too.
    while lost := [at for at, of in found.items() if not found.keys() >= needs_of(of)]:
        for at in lost:
            del found[at]
    sources: dict[str, list[str]] = {}
    for kind, key in found:
        told = [record["jobs"].get(f"{kind}-{key}", {"extra": {}})["extra"] for record in every]
        if names := {extra["source"] for extra in told if extra.get("source")}:
            sources[f"{kind}-{key}"] = sorted(names)
    return _Content(every, dict(sorted(found.items())), sources)


def _stored(
    root: Path,
    content: _Content,
    weights: bool,
    seeds: Collection[int],
    elsewhere: Collection[str],
) -> dict[str, Path | str]:
    """Return the files of the bundle by their names in it: paths in the store, and texts."""
    files: dict[str, Path | str] = {}
    for (kind, key), described in content.described.items():
        files[f"spec/{kind}-{key}.json"] = description_path(root, kind, key)
        for folder in _finished(root, described, seeds) if kind in FILES else ():
            if kind == "train" and not _names(folder).isdisjoint(elsewhere):
                continue
            for file in (*FILES[kind], ADOPTED):
                path = folder / file
                if path.is_file() and (weights or file != WEIGHTS):
                    files[path.relative_to(root / "store").as_posix()] = path
    report = read_description(root, *shown_of(content.records[0])[-1][1:])
    files["config.json"] = json_text(report["spec"]["config"])
    every = dict.fromkeys(tuple(row) for record in content.records for row in record["variants"])
    files[VARIANTS] = csv_text(VARIANT_COLUMNS, stage_rows(every), "\t")
    if (command := root / "logs" / "command.txt").is_file():
        files["command.txt"] = command
    return files


def _names(folder: Path) -> set[str]:
    """Return what a run's record is called in bundles: by its key, and by those it had before."""
    keys = [folder.parent.name, *(step["from"] for step in adoptions(folder))]
    return {f"train/{key}/{folder.name}/run.json" for key in keys}


def _finished(root: Path, described: Described, wanted: Collection[int]) -> Iterator[Path]:
    """Yield the folder of each finished result of a node.

    Of runs, those of the `wanted` seeds; without any, all.
    """
    kind = described["kind"]
    folder = root / "store" / kind / described["key"]
    seeds = seed_folders(folder) if KINDS[kind].seeded else {None: folder}
    for seed, path in seeds.items():
        skipped = bool(wanted) and seed is not None and seed not in wanted
        if not skipped and finished(kind, described["spec"], path):
            yield path


def _write(
    root: Path, content: _Content, files: dict[str, Path | str], writer: Writer, lean: bool
) -> None:
    """Add every file but the list, by name; the tables of runs as small as they can be."""
    rows = Rows(root / "store", content.described)
    with tempfile.TemporaryDirectory() as temporary:
        small = Path(temporary) / "small.parquet"
        for name, source in sorted(files.items()):
            if not (name.startswith("train/") and name.endswith(".parquet")):
                writer.add(name, source)
                continue
            table = read_file(str(source))
            if name.endswith("/predictions.parquet"):
                table = without_unread_scores(table) if lean else table
                table = pack(table, rows.of(content.described["train", name.split("/")[1]]))
            write_small(table, small)
            writer.add(name, small)
