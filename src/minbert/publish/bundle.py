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
from minbert.base.progress import counted, shown_size
from minbert.base.version import VERSION
from minbert.data.parquet import read_file, write_file
from minbert.publish.archive import FILES, unpack, write
from minbert.publish.checks import check_run, put, refusing
from minbert.publish.packed import (
    pack,
    restored,
    rows_by_task,
    small_bytes,
    without_unread_scores,
)
from minbert.spec.architecture import WEIGHTS
from minbert.spec.task import TASKS, use_tasks_of
from minbert.store.node import digest, finished, key_of, seed_folders
from minbert.store.plans import (
    adoptions,
    described_in,
    published_plans,
    read_description,
    read_plan,
    records,
    write_description,
)

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
) -> str:
    """Write what is finished of the plans of `root` to the zip `out`; say how much that is.

    These are the newest plan and those that the plain names are of, of parts too. With `lean`,
    predictions have no probabilities but those that figures read; with `seeds`, only their runs are
    in it. What the bundles `without` have is left out: runs, and the ids and labels of data, so
    that those are to be imported first. The same results give the same bytes. Raises `UserError` if
    nothing is finished.
    """
    listed = (name for path in without for name in unpack(path)["files"])
    elsewhere = {name for name in listed if not name.startswith("spec/")}
    plans = [record for _, record in records(root)][:1]
    if not plans:  # before a lock would make its folder
        raise UserError(f"{root}: no workflow has run there; name its results with --results")
    with results_lock(root):
        plans += [read_plan(root, name) for name in published_plans(root)]
        # Of a task that changed, the newest.
        tasks = {task["name"]: task for plan in reversed(plans) for task in plan["tasks"]}
        use_tasks_of({"tasks": tasks.values()})
        names = {*_names(root / "store", plans, seeds, elsewhere)} - elsewhere
        names = {name for name in names if weights or not name.endswith(WEIGHTS)}
        if not (runs := sum(name.endswith("/run.json") for name in names)):
            raise UserError(
                f"{root} has no finished run to bundle: none has these seeds and is in no bundle "
                "of --without"
            )
        files = _contents(root, plans[0], sorted(names), lean)
        write(out, files, package=VERSION, tasks=[*tasks.values()])
    return f"{out}: {counted(runs, 'run')}, {shown_size(out.stat().st_size)}"


def _names(
    store: Path,
    plans: Sequence[Mapping[str, Any]],
    seeds: Collection[int],
    elsewhere: Collection[str],
) -> Iterator[str]:
    """Yield the names of the files of all finished results, of runs those that are asked for.

    A run is elsewhere by its key, or by one that it was carried over from. Besides, yield those of
    descriptions, of trainings that were begun.
    """
    for name in sorted({name for plan in plans for name in plan["jobs"]}):
        kind, _, key = name.partition("-")
        node, described = store / kind / key, f"spec/{name}.json"
        if kind not in DESCRIBED or not (store / described).exists():
            continue
        if kind != "train" or node.exists():
            yield described
        for seed, folder in seed_folders(node).items() if kind == "train" else [(None, node)]:
            keys = [key, *(step["from"] for step in adoptions(folder))]
            known = any(f"train/{each}/seed{seed}/run.json" in elsewhere for each in keys)
            asked = not seeds or seed is None or seed in seeds
            if kind in FILES and finished(kind, folder) and asked and not known:
                paths = (folder / file for file in FILES[kind])
                yield from (str(path.relative_to(store)) for path in paths if path.is_file())


def _contents(
    root: Path,
    plan: Mapping[str, Any],
    names: Sequence[str],
    lean: bool,
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the configuration, which states checksums, and of results."""
    config = read_description(root, *plan["shown"][-1][1:])["spec"]["config"]
    config["checksums"] = plan["checksums"]
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


def unbundle(root: Path, path: Path, digests: Path | None = None) -> str:
    """Take the bundle at `path` into the results folder `root`.

    Says how many of its runs are new, and how many were there and stay as they are. `digests`
    names a file that says what runs were trained on whose records do not say it: {`tokens`:
    {key: {`splits`: as of `task_digests`}}, `backbone`: {key: digest}}.

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
                said = read_json(digests) if digests else {}
                folders = _checked(path, staged, said)
            for file in (staged / "spec").glob("*.json"):
                write_description(root, read_json(file))
            for folder in folders:
                target = store / folder.relative_to(staged)
                kind = folder.relative_to(staged).parts[0]
                if is_new := not finished(kind, target):
                    put(folder, target)
                counts[is_new] += kind == "train"
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    new = f"{counted(counts[True], 'run')} imported, {counts[False]} already there"
    return f"{root}: {new}; `minbert plan` says what is left to run"


def _checked(path: Path, staged: Path, said: Mapping[str, Any]) -> list[Path]:
    """Unpack a bundle, and return the folders of its results.

    Runs get ids and labels, and records of minbert 0.2 what the runs were trained on.
    """
    listed = unpack(path, staged)
    if hidden := TASKS.built_in.keys() & {task["name"] for task in listed.get("tasks", [])}:
        raise ValueError(f"defines the task '{min(hidden)}', which is built in")
    use_tasks_of(listed)  # by which predictions are scored
    specs = sorted((staged / "spec").glob("*.json"))
    rows = rows_by_task(specs, staged, staged.parent)
    for file in specs:
        if (key := key_of(described_in(file))) not in file.name:
            raise ValueError(f"{file.name} does not match its key: its content has {key}")
    folders = sorted({file.parent for file in staged.glob("*/*/**/*.*")})
    for folder in folders:
        kind, key, *_ = folder.relative_to(staged).parts
        described = described_in(staged / "spec" / f"{kind}-{key}.json")
        if kind != "train":
            continue
        table = folder / "predictions.parquet"
        write_file(table, restored(read_file(table), rows))
        record, needs = read_json(folder / "run.json"), described["needs"]
        if said and "format" not in record:
            tokens = {name: need["key"] for name, need in needs.items() if need["kind"] == "tokens"}
            about = {
                "format": 1,
                "code": digest(described["code"]),
                "data": {
                    n.removeprefix("tokens."): said["tokens"][k]["splits"]
                    for n, k in tokens.items()
                },
                "backbone": said["backbone"][needs[f"backbone.{WEIGHTS}"]["key"]],
            }
            write_json(folder / "run.json", record | about)
        check_run(folder, described)
    return folders
