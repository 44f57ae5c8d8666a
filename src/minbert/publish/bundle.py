"""Finished runs as one file: `minbert bundle` writes it, `minbert unbundle` takes it in.

It holds what tables, figures, claims and the report are made from: descriptions, histories,
predictions, records of runs, reports on data, dev and test rows without texts. No texts, and
weights only on request.

A bundle is a zip of what `FILES` allows, with a list of sizes and checksums. Nothing in it is
believed before it was checked. Only files of allowed names are unpacked, so nothing is written
outside the folder that it is unpacked to; other names, as of pages for people, are passed over.

The ids of a task's dev and test rows are random, and the same in each of hundreds of runs. So
predictions are packed: a table has the number of the row among those of the data set
(`data.examples`) in place of id and label. What cannot be restored to the last bit so stays as it
is.
"""

import hashlib
import io
import json
import re
import shutil
import zipfile
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from minbert.base.errors import UserError
from minbert.base.files import read_json, whole
from minbert.base.locks import results_lock
from minbert.base.progress import counted, shown_size
from minbert.base.version import VERSION
from minbert.data.parquet import read_file, write_file
from minbert.publish.checks import check_run, put, refusing
from minbert.spec.architecture import WEIGHTS
from minbert.spec.task import BUILT_IN, TASKS, use_tasks_of
from minbert.store.node import KINDS, finished, key_of, seed_folders
from minbert.store.plans import (
    ADOPTED,
    adoptions,
    described_in,
    published_plans,
    read_description,
    read_plan,
    records,
    write_description,
)

MANIFEST = "bundle.json"
FORMAT = {"format": "minbert bundle", "version": 1}
KINDS_HELD = ("backbone", "data", "labels", "rows", "train")
FILES = {kind: (*KINDS[kind].required_outputs, ADOPTED) for kind in KINDS_HELD}
FILES["train"] += (WEIGHTS,)
"""The files of each kind that a bundle may have: no texts, and weights of runs alone. Of all other
nodes it has the description."""

_MOST = 4 << 30
"""Bytes of a file that is unpacked."""
_KEY = "[0-9a-f]{16}"
_RUN = re.compile(r"/seed(\d+)/run\.json$")
_NAME = re.compile(rf"spec/[a-z]+-{_KEY}\.json|([a-z]+)/{_KEY}/(?:seed\d+/)?([a-z.]+)")
DESCRIBED = {*FILES, "tokens", "features"}
"""The kinds whose nodes a bundle describes."""
ROW = "row"
"""The column that stands for id and label."""
Rows = Mapping[str, Mapping[str, list[Any]]]
"""The columns of the dev and test rows of each task."""


def bundle(
    root: Path,
    out: Path,
    *,
    weights: bool = False,
    lean: bool = False,
    seeds: Collection[int] = (),
    without: Collection[Path] = (),
) -> str:
    """Write what is finished of the plans of `root` to the zip `out`; say how much that is.

    These are the newest plan and those that the readable names are of, of parts too. With `lean`,
    predictions have no probabilities but those that figures read; with `seeds`, only their runs are
    in it. What the bundles `without` have is left out: runs, and the ids and labels of data, so
    that those are to be imported first. The same results give the same bytes. Raises `UserError` if
    no finished run is left.
    """
    elsewhere = {name for path in without for name in unpack(path)["files"]}
    plans = [record for _, record in records(root)][:1]
    if not plans:  # before a lock would make its folder
        raise UserError(f"{root}: no workflow has run there; give a folder with --results")
    with results_lock(root):
        plans += [read_plan(root, name) for name in published_plans(root)]
        # Of a task that changed, the newest.
        tasks = {task["name"]: task for plan in reversed(plans) for task in plan["tasks"]}
        use_tasks_of({"tasks": tasks.values()})
        names = sorted({*_names(root / "store", plans, seeds, elsewhere)})
        names = [name for name in names if weights or not name.endswith(WEIGHTS)]
        runs = [int(seed[1]) for name in names if (seed := _RUN.search(name))]
        if (lacking := {*seeds} - {*runs}) or not runs:
            of = f" of seed {min(lacking)}" if lacking else ""
            raise UserError(f"{root} has no finished run{of} to put into the bundle")
        files = _contents(root, plans, names, lean)
        write(out, files, package=VERSION, tasks=[*tasks.values()])
    return f"{out}: {counted(len(runs), 'run')}, {shown_size(out.stat().st_size)}"


def _names(
    store: Path,
    plans: Sequence[Mapping[str, Any]],
    seeds: Collection[int],
    elsewhere: set[str],
) -> Iterator[str]:
    """Yield the names of the files of all finished results, of runs those that are selected.

    A run is elsewhere by its key, or by one that it was carried over from. Besides, yield those of
    descriptions, of trainings once for each run that is selected.
    """
    for name in sorted({name for plan in plans for name in plan["jobs"]}):
        kind, _, key = name.partition("-")
        node, described = store / kind / key, f"spec/{name}.json"
        if kind not in DESCRIBED or not (store / described).exists():
            continue
        folders = seed_folders(node) if kind == "train" else {None: node}
        if kind != "train":
            yield described
        for seed, folder in folders.items() if kind in FILES else ():
            keys = [key, *(step["from"] for step in adoptions(folder))]
            known = any(f"train/{each}/seed{seed}/run.json" in elsewhere for each in keys)
            asked = not seeds or seed in (None, *seeds)
            if finished(kind, folder) and asked and not known:
                paths = (folder / file for file in FILES[kind] if (folder / file).is_file())
                yield described
                yield from {str(path.relative_to(store)) for path in paths} - elsewhere


def _contents(
    root: Path,
    plans: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    lean: bool,
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of results, after a configuration, which states checksums.

    It is that of the first plan of whole grids, if there is one.
    """
    plan = min(plans, key=lambda plan: bool(plan["below"]))
    # A record of an earlier version lacks it; a report's spec has no defaults.
    report = read_description(root, *plan["shown"][-1][1:])["spec"]
    config = plan.get("config") or report["config"] | plan.get("sources", {})
    config["checksums"] = dict(ChainMap(*(each["checksums"] for each in (plan, *plans))))
    yield "config.json", json.dumps(config, indent=1).encode()
    rows = rows_by_task((root / "store" / name for name in names), root / "store")
    for name in names:
        path = root / "store" / name
        if not name.startswith("train/") or path.suffix != ".parquet":
            yield name, path.read_bytes()
            continue
        table = read_file(path)
        if path.name == "predictions.parquet":
            table = pack(without_unread_scores(table) if lean else table, rows)
        yield name, small_bytes(table)


def unbundle(root: Path, path: Path) -> str:
    """Take the bundle at `path` into the results folder `root`.

    Says how many of its runs are new, and how many were there and stay as they are.

    Everything is unpacked in the store, which may be a link to another disk, and checked first.
    Raises `UserError` with the reason if anything in it is not as `bundle` writes it, or while a
    workflow or a job runs; then nothing was taken in.
    """
    store, counts = root / "store", [0, 0]
    with results_lock(root, alone=True):
        staged = store / ".unbundle"
        shutil.rmtree(staged, ignore_errors=True)  # of one that was killed
        staged.mkdir(parents=True)
        try:
            with refusing("nothing is imported"):
                results = _checked(path, staged)
            for file in (staged / "spec").glob("*.json"):
                write_description(root, read_json(file))
            for folder in results:
                target = store / (place := folder.relative_to(staged))
                if is_new := not finished(place.parts[0], target):
                    put(folder, target)
                counts[is_new] += place.parts[0] == "train"
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    new = f"{counted(counts[True], 'run')} imported, {counts[False]} already there"
    return f"{root}: {new}; `minbert plan` says what is left to run"


def _checked(path: Path, staged: Path) -> list[Path]:
    """Unpack a bundle, give its runs ids and labels, and return the folders of its results."""
    listed = unpack(path, staged)
    if hidden := BUILT_IN.keys() & {task["name"] for task in listed.get("tasks", [])}:
        raise ValueError(f"defines the task '{min(hidden)}', which is built in")
    use_tasks_of(listed)  # by which predictions are scored
    specs = sorted((staged / "spec").glob("*.json"))
    rows = rows_by_task(specs, staged, staged.parent)
    results = []
    for file in specs:
        described = described_in(file)
        kind, key = described["kind"], described["key"]
        if key != (content := key_of(described)):
            raise ValueError(f"{file.name} does not match its key: its content has {content}")
        if kind != "train":
            results += [node] if (node := staged / kind / key).exists() else []
            continue
        for folder in seed_folders(staged / kind / key).values():
            table = folder / "predictions.parquet"
            write_file(table, restored(read_file(table), rows))
            check_run(folder, described)
            results.append(folder)
    return results


def write(out: Path, files: Iterable[tuple[str, bytes]], **about: Any) -> None:
    """Write a bundle of `files` by name, the same bytes each time; the list of them comes last."""
    listed = {}
    with whole(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, data in files:
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
            listed[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        page = json.dumps({**FORMAT, **about, "files": listed}, indent=1)
        archive.writestr(zipfile.ZipInfo(MANIFEST), page, zipfile.ZIP_DEFLATED)


def unpack(path: Path, target: Path | None = None) -> dict[str, Any]:
    """Return a bundle's list, and unpack what it has of a store to `target`.

    Raises `UserError` for damage, sizes and checksums that are not those of the list.
    """
    with refusing(path), zipfile.ZipFile(path) as archive:
        listed: dict[str, Any] = json.loads(archive.read(MANIFEST))
        if not FORMAT.items() <= listed.items():
            raise ValueError(f"{MANIFEST} has a format other than {FORMAT}")
        entries = listed["files"].items()
        for name, entry in entries if target else ():
            found = _NAME.fullmatch(name)
            if not found or (found[1] and found[2] not in FILES.get(found[1], ())):
                continue
            if (size := archive.getinfo(name).file_size) > _MOST:
                raise ValueError(f"{name} has {size:,} bytes, allowed are {_MOST:,}")
            data = archive.read(name)
            if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                raise ValueError(f"{name} was changed: its SHA-256 is not the listed one")
            at = target / name
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(data)
    return listed


def pack(table: pa.Table, rows: Rows) -> pa.Table:
    """Return `predictions` without ids and labels; unchanged if `rows` lack some."""
    places = {(task, at): n for task, of in rows.items() for n, at in enumerate(of["id"])}
    tasks, ids = table["task"].to_pylist(), table["id"].to_pylist()
    found = [places.get(at) for at in zip(tasks, ids, strict=True)]
    small = table.append_column(ROW, pa.array(found, pa.int32())).drop_columns(["id", "label"])
    return small if None not in found and restored(small, rows).equals(table) else table


def restored(table: pa.Table, rows: Rows) -> pa.Table:
    """Return a packed table with ids and labels; any other table unchanged.

    Raises `ValueError` for a task without rows, and `LookupError` for a row that is not there.
    """
    if ROW not in table.schema.names:
        return table
    tasks = table["task"].to_pylist()
    if absent := {*tasks} - rows.keys():
        raise ValueError(
            f"lacks the ids and labels of '{min(absent)}': first import the bundle that it was "
            "made without"
        )
    places = [*zip(tasks, table[ROW].to_pylist(), strict=True)]
    ids = pa.array([rows[task]["id"][n] for task, n in places])
    labels = pa.array([rows[task]["label"][n] for task, n in places], pa.float32())
    plain = table.drop_columns([ROW]).add_column(0, "id", ids)
    return plain.add_column(5, "label", labels.cast(pa.float64()))


def without_unread_scores(table: pa.Table) -> pa.Table:
    """Return `predictions` with the `scores` that tables, figures and claims read.

    They are the probabilities on dev of tasks with two classes. Gone are those on test, those of
    more classes, and a regression's values, which are its predictions.
    """
    binary = pa.array([name for name, task in TASKS.items() if task.kind == "binary"])
    read = pc.and_(pc.is_in(table["task"], binary), pc.not_equal(table["split"], "test"))
    at = table.schema.get_field_index("scores")
    scores = pc.if_else(read, table["scores"], None)
    return table.set_column(at, table.schema.field(at), scores)


def small_bytes(table: pa.Table) -> bytes:
    """Return a table as parquet of few bytes, the same ones each time."""
    sink = io.BytesIO()
    pq.write_table(
        table.combine_chunks(),
        sink,
        compression="zstd",
        compression_level=19,
        use_dictionary=["split", "task", "metric", "id"],
        use_byte_stream_split=True,  # of all other columns
        write_statistics=False,
    )
    return sink.getvalue()


def rows_by_task(descriptions: Iterable[Path], *stores: Path) -> Rows:
    """Return the rows of each task, of the described nodes, where one of `stores` has them."""
    found = {}
    for path in descriptions:
        kind, _, key = path.stem.partition("-")
        for store in stores if kind == "rows" else ():
            if (table := store / kind / key / "rows.parquet").is_file():
                found[read_json(path)["title"]] = read_file(table).to_pydict()
    return found
