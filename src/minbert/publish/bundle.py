"""Finished runs as one file: `minbert bundle` writes it, `minbert unbundle` takes it in.

It holds what tables, figures, claims and the report are made from: descriptions, histories,
predictions, records of runs, reports on data, dev and test rows without texts. No texts, and
weights only if they are asked for.
"""

import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json
from minbert.base.locks import results_lock
from minbert.base.version import VERSION
from minbert.data.parquet import read_file, write_file
from minbert.publish.archive import FILES, unpack, write
from minbert.publish.checks import check_run, put, refusing
from minbert.publish.packed import (
    Rows,
    pack,
    restored,
    rows_by_task,
    small_bytes,
    without_unread_scores,
)
from minbert.spec.architecture import WEIGHTS
from minbert.spec.task import use_tasks_of
from minbert.store.node import digest, finished, key_of, seed_folders
from minbert.store.plans import (
    adoptions,
    described_in,
    description_path,
    published_plans,
    read_description,
    read_plan,
    records,
    write_description,
)

Described = dict[tuple[str, str], dict[str, Any]]
"""Descriptions by kind and key."""
DESCRIBED = {*FILES, "tokens", "features"}
"""The kinds whose nodes a bundle describes."""


def bundle(
    root: Path,
    out: Path,
    *,
    weights: bool = False,
    lean: bool = False,
    seeds: Collection[int] = (),
    without: Collection[Path] = (),
) -> int:
    """Write what is finished of the plans of `root` to the zip `out`; return the number of runs.

    These are the newest plan and those that the plain names are of, of parts too. With `lean`,
    predictions have no probabilities but those that figures read; with `seeds`, only their runs are
    in it. What the bundles `without` have is left out: runs, and the ids and labels of data, so
    that those are to be imported first. The same results give the same bytes. Raises `UserError` if
    nothing is finished.
    """
    elsewhere = {name for path in without for name in unpack(path)["files"]}
    plans = [record for _, record in records(root)][:1]
    with results_lock(root):
        plans += [read_plan(root, name) for name in published_plans(root)]
        # Of a task that changed, the newest.
        tasks = {task["name"]: task for plan in reversed(plans) for task in plan["tasks"]}
        use_tasks_of({"tasks": tasks.values()})
        described = _described(root, plans)
        names = {*_results(root / "store", described, seeds, elsewhere)} - elsewhere
        names = {name for name in names if weights or not name.endswith(WEIGHTS)}
        if not (runs := sum(name.endswith("/run.json") for name in names)):
            raise UserError(
                f"{root} has no finished run to bundle that has one of the seeds asked for and is "
                "in no bundle of --without; give its results by --results"
            )
        names |= {f"spec/{kind}-{key}.json" for kind, key in described}
        rows = rows_by_task(described, root / "store")
        files = _contents(root, plans[0], sorted(names), rows, lean)
        write(out, files, package=VERSION, tasks=[*tasks.values()])
    return runs


def _described(root: Path, plans: Sequence[Mapping[str, Any]]) -> Described:
    """Return the descriptions of what the plans' runs are, and of all they are made from."""
    found = {}
    for name in sorted({name for plan in plans for name in plan["jobs"]}):
        kind, _, key = name.partition("-")
        made = kind != "train" or (root / "store" / kind / key).exists()
        if kind in DESCRIBED and made and description_path(root, kind, key).exists():
            found[kind, key] = read_description(root, kind, key)
    return found


def _results(
    store: Path, described: Described, seeds: Collection[int], elsewhere: Collection[str]
) -> Iterator[str]:
    """Yield the names of the files of all finished results, of runs those that are asked for.

    A run is elsewhere by its key, or by one that it was carried over from.
    """
    for kind, key in described:
        node = store / kind / key
        for seed, folder in seed_folders(node).items() if kind == "train" else [(None, node)]:
            keys = [key, *(step["from"] for step in adoptions(folder))]
            known = any(f"train/{each}/seed{seed}/run.json" in elsewhere for each in keys)
            asked = not seeds or seed is None or seed in seeds
            if kind in FILES and finished(kind, folder) and asked and not known:
                paths = (folder / name for name in FILES[kind])
                yield from (str(path.relative_to(store)) for path in paths if path.is_file())


def _contents(
    root: Path,
    plan: Mapping[str, Any],
    names: Sequence[str],
    rows: Rows,
    lean: bool,
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the configuration, which states checksums, and of results."""
    config = read_description(root, *plan["shown"][-1][1:])["spec"]["config"]
    config["checksums"] = plan["checksums"]
    yield "config.json", json.dumps(config, indent=1).encode()
    for name in names:
        path = root / "store" / name
        if not name.startswith("train/") or path.suffix != ".parquet":
            yield name, path.read_bytes()
            continue
        table = read_file(path)
        if path.name == "predictions.parquet":
            table = pack(without_unread_scores(table) if lean else table, rows)
        yield name, small_bytes(table)


def unbundle(path: Path, root: Path, digests: Path | None = None) -> tuple[int, int]:
    """Take the bundle at `path` into the results folder `root`.

    Returns how many of its runs are new, and how many were there and stay as they are. `digests`
    names a file that says what runs were trained on whose records do not say it: {`tokens`:
    {key: {`splits`: as of `task_digests`}}, `backbone`: {key: digest}}.

    Everything is unpacked in the store, which may be a link to another disk, and checked first.
    Raises `UserError` with the reason if anything in it is not as `bundle` writes it, or while a
    workflow or a job runs; then nothing was taken in.
    """
    said = read_json(digests) if digests else {}
    store, counts = root / "store", [0, 0]
    with results_lock(root, alone=True):
        staged = store / ".unbundle"
        shutil.rmtree(staged, ignore_errors=True)  # of one that was killed
        staged.mkdir(parents=True)
        try:
            with refusing("nothing is imported"):
                described, folders = _checked(path, staged, said)
            for each in described.values():
                write_description(root, each)
            for kind, folder in folders:
                target = store / folder.relative_to(staged)
                if is_new := not finished(kind, target):
                    put(folder, target)
                counts[is_new] += kind == "train"
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    return counts[True], counts[False]


def _checked(
    path: Path, staged: Path, said: Mapping[str, Any]
) -> tuple[Described, list[tuple[str, Path]]]:
    """Unpack a bundle; return its descriptions, and kind and folder of its results."""
    use_tasks_of(unpack(path, staged))  # by which its predictions are scored
    described = {}
    for file in sorted((staged / "spec").glob("*.json")):
        of = described_in(file)
        if key_of(of) != of["key"]:
            raise ValueError(f"{file.name} does not match its key: its content has {key_of(of)}")
        described[of["kind"], of["key"]] = of
    rows = rows_by_task(described, staged, staged.parent)
    files = (file for kind in FILES for file in (staged / kind).rglob("*") if file.is_file())
    folders = []
    for folder in sorted({file.parent for file in files}):
        kind, key, *_ = folder.relative_to(staged).parts
        of = described[kind, key]
        if kind == "train":
            _complete(folder, of, rows, said)
            check_run(folder, of)
        folders.append((kind, folder))
    return described, folders


def _complete(
    folder: Path,
    described: Mapping[str, Any],
    rows: Rows,
    said: Mapping[str, Any],
) -> None:
    """Give a run ids and labels, and to a record of minbert 0.2 what it was trained on."""
    path = folder / "predictions.parquet"
    write_file(path, restored(read_file(path), rows))
    record, needs = read_json(folder / "run.json"), described["needs"]
    if said and "format" not in record:
        tokens = {name: need["key"] for name, need in needs.items() if need["kind"] == "tokens"}
        about = {
            "format": 1,
            "code": digest(described["code"]),
            "data": {
                n.removeprefix("tokens."): said["tokens"][k]["splits"] for n, k in tokens.items()
            },
            "backbone": said["backbone"][needs[f"backbone.{WEIGHTS}"]["key"]],
        }
        write_json(folder / "run.json", record | about)
